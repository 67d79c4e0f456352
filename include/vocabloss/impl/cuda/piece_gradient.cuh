// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_PIECE_GRADIENT_CUH
#define VOCABLOSS_IMPL_CUDA_PIECE_GRADIENT_CUH

/// \file
/// \brief The gradient of a piece, from registers to global memory, so that the slot is free once it has been read.
///
/// Most vectors of most rows take the loss's plain gradient, where it has one; the label's, those at a maximum, those
/// where it gave NaN, and whatever is masked or accumulated take the gradient that is always right, one by one.

#include <vocabloss/impl/cuda/piece_view.cuh>
#include <vocabloss/loss/concept.hpp>

namespace vocabloss::Impl {

/// What all pieces of a row share.
template <class Loss, class T, class Shape>
struct PieceGradient {
  using View = PieceView<Loss, T, Shape>;
  static constexpr bool has_plain = loss::HasPlainGradient<Loss>;
  static constexpr int columns_of_vector = vector_columns<T>;

  const Loss& loss;
  const Posted<Loss>& posted;     ///< in shared memory: registers hold only what most vectors need
  const GradientRowOf<Loss> row;  ///< the same, for them
  const int label;
  const bool is_plain;  ///< whole pieces may be written at once
  const bool cares_for_maxima;
  const bool may_be_nan;  ///< the plain gradient
  T* const gradient;      ///< of column 0
  const RowCall<float>& call;

  /// `note`: of the columns that this warp writes.
  __device__ __forceinline__ PieceGradient(const Loss& algebra, const Posted<Loss>& of_row,
                                           const RowCall<float>& of_launch, const SumsNote& note)
      : loss(algebra),
        posted(of_row),
        row(of_row.gradient_row),
        label(of_row.label),
        is_plain(!of_row.masked && !of_launch.gradient.accumulate && is_plain_row(loss, row)),
        cares_for_maxima(note.may_hold_peaks && does_care(loss, row)),
        may_be_nan(!note.are_finite),
        gradient(static_cast<T*>(of_row.gradient)),
        call(of_launch) {
    __builtin_assume(__isGlobal(gradient));  // a pointer that comes from shared memory might be to anywhere
  }

  /// `has_label`: whether the label's column may be in the piece.
  template <bool ordinary>
  __device__ __forceinline__ void write(const View& piece, bool has_label) const {
    unsigned left = all_vectors;  // vectors that go one by one, a bit each
    if (is_plain && (ordinary || (has_plain ? piece.is_wide() : piece.is_full()))) {
      left = write_at_once<ordinary>(piece, has_label);
      if (!ordinary && piece.count > Shape::piece_vectors) left |= 1u << Shape::vectors;
    }
    for (int k = 0; left != 0 && piece.has(k); left >>= 1, ++k) {
      if (left & 1) write_one<ordinary>(piece, k);
    }
  }

 private:
  /// A piece may have a vector a thread more than a full one.
  static constexpr unsigned all_vectors = (2u << Shape::vectors) - 1;

  __device__ __forceinline__ static bool is_plain_row(const Loss& loss, const GradientRowOf<Loss>& row) {
    if constexpr (has_plain) return loss.has_plain_gradient(row);
    return true;
  }

  __device__ __forceinline__ static bool does_care(const Loss& loss, const GradientRowOf<Loss>& row) {
    if constexpr (requires { loss.cares_for_maxima(row); }) return loss.cares_for_maxima(row);
    return false;
  }

  /// Stores the thread's k-th vector, as far as it is the piece's.
  template <bool ordinary>
  __device__ __forceinline__ void store(const View& piece, int k, const uint4& vector) const {
    const int column = piece.column_of(k);
    if constexpr (ordinary) {
      *reinterpret_cast<uint4*>(gradient + column) = vector;
    } else {
      store_columns(gradient + column, vector, -column, piece.end_column - column);
    }
  }

  /// Shape::vectors vectors. Returns those that it left alone.
  template <bool ordinary>
  __device__ __forceinline__ unsigned write_at_once(const View& piece, bool has_label) const {
    HeldVectors<Shape::vectors> held = piece.template load<Shape::vectors>(0);
    // What neighbours hold must not decide by a NaN how this row's columns in the same vector are found.
    piece.lower_others(held, 0);
    unsigned left = 0;
    if constexpr (!has_plain) {
#pragma unroll
      for (int k = 0; k < Shape::vectors; ++k) {
        store<ordinary>(piece, k, pack_vector<T>(loss.gradient(row, piece.columns(held, k, k), label)));
      }
    } else {
      if constexpr (requires { loss.is_at_maximum(row, 0.0f, 0.0f); }) {
        if (cares_for_maxima) left |= at_maximum(held);
      }
      if (Loss::needs_label && has_label) left |= at_label(piece.first_column);
      uint4 result[Shape::vectors];
#pragma unroll
      for (int k = 0; k < Shape::vectors; ++k) {
        result[k] = pack_vector<T>(loss.plain_gradient(row, piece.columns(held, k, k)));
      }
      if constexpr (Loss::plain_gradient_may_be_nan) {
        if (may_be_nan) left |= nan_among(result);
      }
#pragma unroll
      for (int k = 0; k < Shape::vectors; ++k) {
        if (!(left >> k & 1)) store<ordinary>(piece, k, result[k]);
      }
    }
    return left;
  }

  __device__ __forceinline__ static unsigned nan_among(const uint4 (&vectors)[Shape::vectors]) {
    unsigned found = 0;
#pragma unroll
    for (int k = 0; k < Shape::vectors; ++k) found |= static_cast<unsigned>(holds_nan<T>(vectors[k])) << k;
    return found;
  }

  __device__ __forceinline__ unsigned at_maximum(const HeldVectors<Shape::vectors>& held) const {
    unsigned found = 0;
#pragma unroll
    for (int k = 0; k < Shape::vectors; ++k) {
      const uint4 x[1] = {held.x[k]}, t[1] = {held.t[k]};
      const float max_t = Loss::streams == 2 && Loss::teacher_is_logits ? largest_column<T>(t) : 0.0f;
      if (loss.is_at_maximum(posted.gradient_row, largest_column<T>(x), max_t)) found |= 1u << k;
    }
    return found;
  }
  __device__ __forceinline__ unsigned at_label(int first_column) const {
    constexpr int n = columns_of_vector, step = Shape::threads * n;
    const unsigned ahead = static_cast<unsigned>(label) - static_cast<unsigned>(first_column);
    return ahead < Shape::vectors * step && ahead % step < n ? 1u << (ahead / step) : 0u;
  }

  template <bool ordinary>
  __device__ __forceinline__ void write_one(const View& piece, int k) const {
    const HeldVectors<1> held = piece.template load<1>(k);
    const auto of_vector = piece.columns(held, 0, k);
    auto result = loss.gradient(posted.gradient_row, of_vector, label);
    if (posted.masked) result = VectorPack<T>{};
    if (call.gradient.accumulate) add_to_old(result, of_vector.first);
    store<ordinary>(piece, k, pack_vector<T>(result));
  }

  /// The sum is rounded once. A masked row keeps what it has.
  __device__ __forceinline__ void add_to_old(VectorPack<T>& result, int first_column) const {
    for (int j = 0; j < columns_of_vector; ++j) {
      const int column = first_column + j;
      if (column < 0 || column >= call.columns) continue;
      const float before = widen(gradient[column]);
      result.lane[j] = posted.masked ? before : before + result.lane[j];
    }
  }
};

}  // namespace vocabloss::Impl

#endif
