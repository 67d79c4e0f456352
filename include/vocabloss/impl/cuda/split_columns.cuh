// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_SPLIT_COLUMNS_CUH
#define VOCABLOSS_IMPL_CUDA_SPLIT_COLUMNS_CUH

/// \file
/// \brief From a stage of the ring to the algebra: columns in registers, absorbed a stage or a vector at a time.

#include <vocabloss/impl/cuda/split_ring.cuh>
#include <vocabloss/loss/concept.hpp>

#include <limits>

namespace vocabloss::Impl {

template <class Loss, class T>
struct SplitColumns {
  static constexpr int lanes = vector_columns<T>;
  static constexpr bool has_teacher = Loss::streams == 2;
  static constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
  static constexpr float neutral_teacher = Loss::teacher_is_logits ? minus_infinity : 0.0f;
  using Row = SplitRow<Loss, T>;
  using Ring = SplitRing<Loss, T>;
  using Columns = loss::Columns<float, lanes>;

  const Loss& loss;
  const Ring& ring;
  DataType teacher_type;

  /// The v-th vector of a slot, whose first column is `first`.
  __device__ __forceinline__ Columns at(const Row& row, int slot, int v, int first) const {
    Columns columns;
    columns.first = first;
    columns.x = unpack<T>(ring.vector(slot, 0, v));
    if constexpr (has_teacher) {
      if (row.teacher_is_parallel) {
        columns.t = unpack<T>(ring.vector(slot, 1, v));
        if (row.is_ragged(first)) row.blank(columns.t, first, neutral_teacher);
      } else {
        columns.t = row.load_teacher(teacher_type, first, neutral_teacher);
      }
    }
    if (row.is_ragged(first)) row.blank(columns.x, first, minus_infinity);
    return columns;
  }

  /// Adds this thread's columns of a stage, of which `vector` is the first vector, to the state.
  template <int Round, class State>
  __device__ __forceinline__ void absorb(State& state, const Row& row, int vector, int slot, int label,
                                         const typename Loss::Statistics& statistics) const {
    if (!has_teacher || row.teacher_is_parallel) {
      return absorb_stage<Round>(state, row, vector, slot, label, statistics);
    }
    if constexpr (has_teacher) {
#pragma unroll 1
      for (int v = 0; v < Ring::vectors; ++v) {
        const int first = row.first_column(vector + v * split_threads);
        if (!ring.holds(vector + v * split_threads, first, row.columns)) break;
        loss::absorb<Round>(loss, state, statistics, at(row, slot, v, first), label);
      }
    }
  }

 private:
  /// The vectors of a stage at once: their maxima are compared as stored, and the state is rescaled once.
  template <int Round, class State>
  __device__ __forceinline__ void absorb_stage(State& state, const Row& row, int vector, int slot, int label,
                                               const typename Loss::Statistics& statistics) const {
    uint4 x[Ring::vectors], t[Ring::vectors];
    int held = 0;
#pragma unroll
    for (int v = 0; v < Ring::vectors; ++v) {
      x[v] = x[0], t[v] = t[0];
      const int first = row.first_column(vector + v * split_threads);
      if (!ring.holds(vector + v * split_threads, first, row.columns)) continue;
      ++held;
      x[v] = ring.vector(slot, 0, v);
      if constexpr (has_teacher) t[v] = ring.vector(slot, 1, v);
      if (row.is_ragged(first)) {
        x[v] = row.blank(x[v], first, minus_infinity);
        if constexpr (has_teacher) t[v] = row.blank(t[v], first, neutral_teacher);
      }
    }
    if (held == 0) return;
    const float max_x = largest_column<T>(x);
    float max_t = 0.0f;
    if constexpr (has_teacher && Loss::teacher_is_logits) max_t = largest_column<T>(t);
    loss.template raise<Round>(state, max_x, max_t);
#pragma unroll
    for (int v = 0; v < Ring::vectors; ++v) {
      if (v >= held) break;
      Columns columns;
      columns.first = row.first_column(vector + v * split_threads);
      columns.x = unpack<T>(x[v]);
      if constexpr (has_teacher) columns.t = unpack<T>(t[v]);
      loss.template accumulate<Round>(state, statistics, columns, label);
    }
  }
};

}  // namespace vocabloss::Impl

#endif
