// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_PIECE_REPAIR_CUH
#define VOCABLOSS_IMPL_CUDA_PIECE_REPAIR_CUH

/// \file
/// \brief Makes an odd piece in shared memory look like an ordinary one, so that the arithmetic knows no odd cases.
///
/// Two things can be odd. At the ends of a row a vector holds columns of the neighbouring row: they are overwritten
/// with values that add nothing. And a stream may start at another byte offset than the logits: it is shifted within
/// its part of the slot, its region (given by the shared address). Thread i owns vectors i, i + threads, ... of each
/// stream, here as everywhere.

#include <vocabloss/impl/cuda/cluster_call.cuh>

namespace vocabloss::Impl {

/// Column j of the region becomes what was column j + distance, for the first `vectors` vectors. All of a group's
/// threads take part: what they wrote before is seen, and the result is ordered for the owner of each vector only.
template <class T, class Shape>
__device__ __noinline__ void shift_columns(std::uint32_t address, int distance, int vectors, int thread) {
  constexpr int columns = vector_columns<T>;
  constexpr int most = Shape::vectors + 1;  // a piece may have more than a full one
  struct alignas(16) Vector {
    T column[columns];
  };
  Vector moved[most];
  T* const region = static_cast<T*>(__cvta_shared_to_generic(address));
  const int barrier = 1 + Shape::group();
  const int last = (vectors + 1) * columns - 1;
  synchronise(barrier, Shape::threads);
#pragma unroll
  for (int k = 0; k < most; ++k) {
    const int v = thread + k * Shape::threads;
    if (v < vectors) {
#pragma unroll
      for (int j = 0; j < columns; ++j) moved[k].column[j] = region[max(0, min(v * columns + j + distance, last))];
    }
  }
  synchronise(barrier, Shape::threads);
#pragma unroll
  for (int k = 0; k < most; ++k) {
    const int v = thread + k * Shape::threads;
    if (v < vectors) reinterpret_cast<Vector*>(region)[v] = moved[k];
  }
}

/// Overwrites the columns of neighbouring rows with `neutral`: minus infinity for logits, 0 for probabilities. Of the
/// vectors from `vector` on that are a thread's.
template <class T, class Shape>
__device__ __noinline__ void neutralise_neighbours(std::uint32_t address,
                                                   RowLayout<vector_columns<T>, Shape::piece_vectors> layout,
                                                   Piece piece, float neutral, int vector) {
  constexpr int columns = vector_columns<T>;
  T* const region = static_cast<T*>(__cvta_shared_to_generic(address));
  for (int v = vector; v < piece.count; v += Shape::threads) {
    const int first = layout.column_of(piece.first + v);
    if (first >= 0 && first + columns <= layout.columns) continue;
    for (int j = 0; j < columns; ++j) {
      if (first + j < 0 || first + j >= layout.columns) region[v * columns + j] = narrow<T>(neutral);
    }
  }
}

}  // namespace vocabloss::Impl

#endif
