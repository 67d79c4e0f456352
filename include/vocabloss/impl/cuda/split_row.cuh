// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_SPLIT_ROW_CUH
#define VOCABLOSS_IMPL_CUDA_SPLIT_ROW_CUH

/// \file
/// \brief A row of any alignment and mix of types, seen as the 16-byte vectors of its logits.
///
/// The logits' addresses cut the row into vectors; the first and the last may hold columns of neighbours, which are
/// blanked after reading and never written. A teacher of the same type and alignment goes the same way; any other
/// teacher, and a gradient of another type or alignment, is moved in wider or narrower pieces where it is used.

#include <vocabloss/impl/cuda/pack_io.cuh>
#include <vocabloss/impl/row_call.hpp>

#include <cstdint>

namespace vocabloss::Impl {

/// Bytes by which an address misses a multiple of 16.
__device__ __forceinline__ int misalignment(const void* address) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % 16);
}

template <class Loss, class T>
struct SplitRow {
  static constexpr int lanes = vector_columns<T>;
  using Columns = loss::Columns<float, lanes>;

  const T* x;           ///< column 0
  const void* teacher;  ///< column 0
  int columns;
  int phase;                 ///< columns of the neighbour in the first vector
  bool teacher_is_parallel;  ///< its vectors are the logits' vectors

  __device__ __forceinline__ SplitRow(const RowCall<float>& call, std::int64_t i)
      : x(call.logits.row<T>(i)),
        teacher(nullptr),
        columns(call.columns),
        phase(misalignment(x) / static_cast<int>(sizeof(T))),
        teacher_is_parallel(false) {
    if constexpr (Loss::streams == 2) {
      const bool same_type = call.teacher.type == Precision<T>::type;
      teacher = same_type ? static_cast<const void*>(call.teacher.row<T>(i)) : call.teacher.row<float>(i);
      teacher_is_parallel = same_type && misalignment(teacher) == misalignment(x);
    }
  }

  /// The column in lane 0; negative in a first vector that begins with a neighbour's columns.
  __device__ __forceinline__ int first_column(int vector) const { return vector * lanes - phase; }
  __device__ __forceinline__ bool is_ragged(int first) const { return first < 0 || first > columns - lanes; }
  /// Of the vector, up to the end of the row: what follows may lie outside the caller's buffer.
  __device__ __forceinline__ int bytes_to_read(int first) const {
    return min(lanes, columns - first) * static_cast<int>(sizeof(T));
  }

  /// Columns of the neighbours become the neutral ones: logits of minus infinity, probabilities of 0.
  __device__ __forceinline__ void blank(loss::Pack<float, lanes>& pack, int first, float neutral) const {
#pragma unroll
    for (int j = 0; j < lanes; ++j) {
      if (first + j < 0 || first + j >= columns) pack.lane[j] = neutral;
    }
  }

  __device__ __forceinline__ uint4 blank(const uint4& vector, int first, float neutral) const {
    loss::Pack<float, lanes> pack = unpack<T>(vector);
    blank(pack, first, neutral);
    return pack_vector<T>(pack);
  }

  /// A teacher that is not parallel: float in two 16-byte loads where it can be, else column by column.
  __device__ __forceinline__ loss::Pack<float, lanes> load_teacher(DataType type, int first, float neutral) const {
    loss::Pack<float, lanes> pack;
    if (type == Precision<T>::type) {
      const T* columns_of_teacher = static_cast<const T*>(teacher) + first;
#pragma unroll
      for (int j = 0; j < lanes; ++j) {
        const bool inside = first + j >= 0 && first + j < columns;
        pack.lane[j] = inside ? widen(columns_of_teacher[j]) : neutral;
      }
      return pack;
    }
    const float* columns_of_teacher = static_cast<const float*>(teacher) + first;
    if (misalignment(columns_of_teacher) == 0 && !is_ragged(first)) {
#pragma unroll
      for (int j = 0; j < lanes; j += 4) {
        const float4 four = *reinterpret_cast<const float4*>(columns_of_teacher + j);
        pack.lane[j] = four.x, pack.lane[j + 1] = four.y, pack.lane[j + 2] = four.z, pack.lane[j + 3] = four.w;
      }
      return pack;
    }
#pragma unroll
    for (int j = 0; j < lanes; ++j) {
      const bool inside = first + j >= 0 && first + j < columns;
      pack.lane[j] = inside ? columns_of_teacher[j] : neutral;
    }
    return pack;
  }
};

/// Writes a vector's columns of the gradient, those of the row only, or adds them to what is there: rounded once.
template <class Stored, int lanes>
__device__ __forceinline__ void store_columns(Stored* gradient, loss::Pack<float, lanes> pack, int first, int columns,
                                              bool accumulate) {
  Stored* target = gradient + first;
  const bool is_whole = first >= 0 && first <= columns - lanes;
  if (is_whole && misalignment(target) == 0) {
    constexpr int per_vector = vector_columns<Stored>;
    auto* vectors = reinterpret_cast<uint4*>(target);
#pragma unroll
    for (int k = 0; k < lanes / per_vector; ++k) {
      VectorPack<Stored> part;
      if (accumulate) part = unpack<Stored>(vectors[k]);
#pragma unroll
      for (int j = 0; j < per_vector; ++j) {
        const float value = pack.lane[k * per_vector + j];
        part.lane[j] = accumulate ? part.lane[j] + value : value;
      }
      __stcs(vectors + k, pack_vector<Stored>(part));
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < lanes; ++j) {
    if (first + j < 0 || first + j >= columns) continue;
    const float before = accumulate ? widen(target[j]) : 0.0f;
    target[j] = narrow<Stored>(before + pack.lane[j]);
  }
}

template <class T, int lanes>
__device__ __forceinline__ void store_gradient(const GradientStream& gradient, std::int64_t i,
                                               const loss::Pack<float, lanes>& pack, int first, int columns) {
  if (gradient.type == Precision<T>::type) {
    store_columns(gradient.row<T>(i), pack, first, columns, gradient.accumulate);
  } else {
    store_columns(gradient.row<float>(i), pack, first, columns, gradient.accumulate);
  }
}

}  // namespace vocabloss::Impl

#endif
