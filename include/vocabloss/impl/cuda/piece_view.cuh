// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_PIECE_VIEW_CUH
#define VOCABLOSS_IMPL_CUDA_PIECE_VIEW_CUH

/// \file
/// \brief A piece of a row in its slot, as one consumer thread sees it: thread i owns vectors i, i + threads, ... of
/// each stream.

#include <vocabloss/impl/cuda/async.cuh>
#include <vocabloss/impl/cuda/cluster_call.cuh>
#include <vocabloss/impl/cuda/pack_io.cuh>

#include <type_traits>

namespace vocabloss::Impl {

/// `Count` vectors of each stream in registers, as stored.
template <int Count>
struct HeldVectors {
  uint4 x[Count], t[Count];
};

template <class Loss, class T, class Shape>
struct PieceView {
  static constexpr int columns_of_vector = vector_columns<T>;
  static constexpr int threads = Shape::threads;

  std::uint32_t data;     ///< shared address of the thread's first vector of the logits
  std::uint32_t teacher;  ///< how much further on that of the teacher lies
  int thread;
  int count;         ///< vectors of the piece
  int first_column;  ///< in lane 0 of the thread's first vector
  int end_column;    ///< the first column that is not the piece's any more
  bool is_cut;       ///< whether full vectors of all threads hold other columns than the piece's

  /// Whether to take the piece at once and not vector by vector. One that is short may hold what columns were there
  /// before.
  __device__ __forceinline__ bool is_wide() const { return count > Shape::piece_vectors / 2; }
  __device__ __forceinline__ bool is_full() const { return count >= Shape::piece_vectors; }
  __device__ __forceinline__ bool has(int k) const { return thread + k * threads < count; }
  __device__ __forceinline__ int column_of(int k) const { return first_column + k * (threads * columns_of_vector); }
  __device__ __forceinline__ std::uint32_t address_of(int k) const { return data + k * (threads * 16); }

  /// The thread's vectors from the k-th on.
  template <int Count>
  __device__ __forceinline__ HeldVectors<Count> load(int k) const {
    HeldVectors<Count> held;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      held.x[i] = load_shared(address_of(k + i));
      if constexpr (Loss::streams == 2) held.t[i] = load_shared(address_of(k + i) + teacher);
    }
    return held;
  }

  /// The i-th of them, which is the thread's k-th, in floats.
  template <int Count>
  __device__ __forceinline__ loss::Columns<float, columns_of_vector> columns(const HeldVectors<Count>& held, int i,
                                                                             int k) const {
    loss::Columns<float, columns_of_vector> result;
    result.x = unpack<T>(held.x[i]);
    if constexpr (Loss::streams == 2) result.t = unpack<T>(held.t[i]);
    result.first = column_of(k);
    return result;
  }

  /// `Together` of them as one pack, from the i-th on.
  template <int Together, int Count>
  __device__ __forceinline__ loss::Columns<float, Together * columns_of_vector> pack(const HeldVectors<Count>& held,
                                                                                     int i, int k) const {
    loss::Columns<float, Together * columns_of_vector> all;
#pragma unroll
    for (int v = 0; v < Together; ++v) {
      const auto some = columns(held, i + v, k + v);
#pragma unroll
      for (int j = 0; j < columns_of_vector; ++j) {
        all.x.lane[v * columns_of_vector + j] = some.x.lane[j];
        if constexpr (Loss::streams == 2) all.t.lane[v * columns_of_vector + j] = some.t.lane[j];
      }
    }
    all.first = column_of(k);
    return all;
  }

  /// The piece as another lane of the warp sees it.
  __device__ __forceinline__ PieceView of_lane(int lane) const {
    const int further = lane - thread % 32;
    PieceView other = *this;
    other.data += further * 16;
    other.thread += further;
    other.first_column += further * columns_of_vector;
    return other;
  }

  /// One of the four words of the thread's k-th vector.
  __device__ __forceinline__ loss::Columns<float, WordOf<T>::columns> word(int k, int index) const {
    loss::Columns<float, WordOf<T>::columns> result;
    WordOf<T>::widen(load_shared_word(address_of(k) + 4 * index), result.x.lane);
    if constexpr (Loss::streams == 2) {
      WordOf<T>::widen(load_shared_word(address_of(k) + teacher + 4 * index), result.t.lane);
    }
    result.first = column_of(k) + index * WordOf<T>::columns;
    return result;
  }

  /// Columns that are not the piece's become low ones, which add nothing to sums that are good.
  template <int Count>
  __device__ __forceinline__ void lower_others(HeldVectors<Count>& held, int k) const {
    if (!is_cut) return;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const int first = column_of(k + i);
      if (first >= 0 && first + columns_of_vector <= end_column) continue;
      set_outside<T>(held.x[i], -first, end_column - first, WordOf<T>::low);
      if constexpr (Loss::streams == 2) {
        set_outside<T>(held.t[i], -first, end_column - first, Loss::teacher_is_logits ? WordOf<T>::low : 0u);
      }
    }
  }

  /// `action(count, k)`: with a full piece's vectors at once if `at_once`, and with the thread's others one by one, of
  /// which an ordinary piece has none; `count` is a type, so that vectors stay in registers.
  template <bool ordinary, class Action>
  __device__ __forceinline__ void for_vectors(bool at_once, Action&& action) const {
    int k = 0;
    if (ordinary || at_once) {
      action(std::integral_constant<int, Shape::vectors>{}, 0);
      k = Shape::vectors;
    }
    if constexpr (!ordinary) {
      for (; has(k); ++k) action(std::integral_constant<int, 1>{}, k);
    }
  }
};

}  // namespace vocabloss::Impl

#endif
