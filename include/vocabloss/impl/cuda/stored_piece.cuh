// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_STORED_PIECE_CUH
#define VOCABLOSS_IMPL_CUDA_STORED_PIECE_CUH

/// \file
/// \brief A piece of a row in global memory, dealt to threads as PieceView deals it: for the few vectors that are
/// looked at again when their slot holds other rows.

#include <vocabloss/impl/cuda/pack_io.cuh>
#include <vocabloss/types.hpp>

#include <cmath>

namespace vocabloss::Impl {

template <class Loss, class T, class Shape>
struct StoredPiece {
  static constexpr int columns_of_vector = vector_columns<T>;

  const T* x;  ///< of column 0 of the row
  const T* t;
  int thread;
  int count;         ///< vectors of the piece
  int first_column;  ///< in lane 0 of the thread's first vector
  int columns;       ///< of the row

  __device__ __forceinline__ bool has(int k) const { return thread + k * Shape::threads < count; }

  /// The piece as another lane of the warp sees it.
  __device__ __forceinline__ StoredPiece of_lane(int lane) const {
    const int further = lane - static_cast<int>(threadIdx.x % 32);
    StoredPiece other = *this;
    other.thread += further;
    other.first_column += further * columns_of_vector;
    return other;
  }

  /// One of the four words of the thread's k-th vector. Columns of neighbouring rows are minus infinities, their
  /// probabilities 0.
  __device__ __forceinline__ loss::Columns<float, WordOf<T>::columns> word(int k, int index) const {
    loss::Columns<float, WordOf<T>::columns> result;
    result.first = first_column + k * (Shape::threads * columns_of_vector) + index * WordOf<T>::columns;
#pragma unroll
    for (int j = 0; j < WordOf<T>::columns; ++j) {
      const int column = result.first + j;
      const bool is_here = column >= 0 && column < columns;
      result.x.lane[j] = is_here ? widen(x[column]) : -INFINITY;
      if constexpr (Loss::streams == 2) {
        constexpr float neutral = Loss::teacher_is_logits ? -INFINITY : 0.0f;
        result.t.lane[j] = is_here ? widen(t[column]) : neutral;
      }
    }
    return result;
  }
};

}  // namespace vocabloss::Impl

#endif
