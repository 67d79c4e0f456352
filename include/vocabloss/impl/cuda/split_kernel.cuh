// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_SPLIT_KERNEL_CUH
#define VOCABLOSS_IMPL_CUDA_SPLIT_KERNEL_CUH

/// \file
/// \brief Path `split`: every row cut over a group of blocks of one resident grid, in one launch.
///
/// A block walks its slice of the row once a round, meets its group in device memory, and walks the slice again for the
/// gradient. Read in this order: split_shapes.hpp (how many blocks a row), split_row.cuh (what a block sees of it),
/// split_ring.cuh (how the slice passes through shared memory), split_columns.cuh, split_exchange.cuh (how blocks
/// meet), and this.

#include <vocabloss/impl/cuda/split_columns.cuh>
#include <vocabloss/impl/cuda/split_exchange.cuh>
#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/math.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <algorithm>
#include <type_traits>

namespace vocabloss::Impl {

/// Constants of a launch.
struct SplitLaunch {
  SplitWorkspace workspace;
  int groups;
  int slice_vectors;  ///< of a block
  vocabloss::Pass pass;
};

template <class Loss>
inline constexpr int split_words = std::max(words_of<typename Loss::template State<0>>,
                                            words_of<typename Loss::template State<Loss::rounds - 1>>);

template <class Loss, class T>
class SplitBlock {
 public:
  static constexpr int lanes = vector_columns<T>;
  /// What a label that this shard does not hold is called: far below the first lane of a ragged vector, which is -7.
  static constexpr int no_label = -64;
  using Row = SplitRow<Loss, T>;
  using Ring = SplitRing<Loss, T>;
  using Pack = loss::Pack<float, lanes>;
  using Statistics = typename Loss::Statistics;

  __device__ __forceinline__ SplitBlock(const Loss& loss, const RowCall<float>& call, const SplitLaunch& launch,
                                        unsigned char* memory, SplitMerge<split_words<Loss>>& merge)
      : loss_(loss),
        call_(call),
        launch_(launch),
        merge_(merge),
        member_(static_cast<int>(blockIdx.x) % launch.workspace.group),
        ring_(memory, member_ * launch.slice_vectors, (member_ + 1) * launch.slice_vectors, launch.slice_vectors,
              launch.pass == vocabloss::Pass::forward_backward ? Loss::rounds + 1
              : launch.pass == vocabloss::Pass::forward        ? Loss::rounds
                                                               : 1) {}

  __device__ __forceinline__ void run() {
    const bool is_backward = launch_.pass == vocabloss::Pass::backward;
    const bool meets = launch_.workspace.group > 1 && !is_backward;
    std::int64_t next = static_cast<int>(blockIdx.x) / launch_.workspace.group;
    // All that the first row needs is asked for at once, before its mask or label is known: each of them is a round
    // trip to memory away.
    ring_.start(Row(call_, next));
    const std::uint32_t number = meets ? launch_.workspace.number() : 0;
    number_ = number;
    Statistics saved{};
    if (is_backward) saved = load_statistics<Loss>(call_, next);
    std::int64_t current = -1;
    RowFacts<float> facts;
    while (true) {
      RowFacts<float> next_facts;
      const std::int64_t asked = next;
      next = counting_row(next, next_facts);
      if (current >= 0) one_row(current, facts, saved, next);
      if (next >= call_.rows) break;
      if (current < 0 && next != asked) ring_.start(Row(call_, next));
      if (is_backward && (current >= 0 || next != asked)) saved = load_statistics<Loss>(call_, next);
      current = next;
      facts = next_facts;
      next += launch_.groups;
    }
    if (meets && threadIdx.x == 0) launch_.workspace.advance(number);
    await_copies<0>();
  }

 private:
  /// The next row of this group, from row i on, that has to be looked at. Rows passed over are finished on the way.
  __device__ __forceinline__ std::int64_t counting_row(std::int64_t i, RowFacts<float>& facts) {
    for (; i < call_.rows; i += launch_.groups) {
      facts = row_facts(call_, i);
      if (facts.status == RowStatus::counts) break;
      pass_over(i, facts);
    }
    return i;
  }

  /// Masked rows: losses and gradient 0; poisoned ones: NaN. Nothing of the row is looked at.
  __device__ void pass_over(std::int64_t i, const RowFacts<float>& facts) {
    const bool is_masked = facts.status == RowStatus::masked;
    const float value = is_masked ? 0.0f : loss::not_a_number<float>();
    if (launch_.pass != vocabloss::Pass::backward && member_ == 0 && threadIdx.x == 0) {
      Statistics statistics;
      loss::poison(statistics, value);
      store_losses(loss_, call_, i, facts, statistics);
      store_statistics<Loss>(call_, i, statistics);
    }
    if (launch_.pass == vocabloss::Pass::forward || (is_masked && call_.gradient.accumulate)) return;
    const Row row(call_, i);
    ring_.for_each_vector([&](int vector) {
      Pack pack;
#pragma unroll
      for (int j = 0; j < lanes; ++j) pack.lane[j] = value;
      const int first = row.first_column(vector);
      if (first < row.columns) store_gradient<T>(call_.gradient, i, pack, first, row.columns);
    });
  }

  __device__ __forceinline__ void one_row(std::int64_t i, const RowFacts<float>& facts, Statistics statistics,
                                          std::int64_t next_i) {
    const bool has_next = next_i < call_.rows;
    const Row row(call_, i);
    const Row next(call_, has_next ? next_i : i);
    const int label = facts.row.label < 0 ? no_label : facts.row.label;
    const bool is_forward = launch_.pass == vocabloss::Pass::forward;
    int walks = 0;
    if (launch_.pass != vocabloss::Pass::backward) {
      round<0>(row, label, statistics, is_forward && Loss::rounds == 1, next, has_next);
      if constexpr (Loss::rounds == 2) round<1>(row, label, statistics, is_forward, next, has_next);
      walks = Loss::rounds;
      if (member_ == 0 && threadIdx.x == 0) {
        store_losses(loss_, call_, i, facts, statistics);
        store_statistics<Loss>(call_, i, statistics);
      }
    }
    if (is_forward) return;
    const auto slope = loss_.gradient_row(statistics, facts.row);
    ring_.walk(row, walks, true, next, has_next, [&](int vector, int slot) {
#pragma unroll 1
      for (int v = 0; v < Ring::vectors; ++v) {
        const int first = row.first_column(vector + v * split_threads);
        if (!ring_.holds(vector + v * split_threads, first, row.columns)) break;
        const auto pack = columns().at(row, slot, v, first);
        store_gradient<T>(call_.gradient, i, loss_.gradient(slope, pack, label), first, row.columns);
      }
    });
  }

  /// One walk over the slice and one exchange.
  template <int Round>
  __device__ __forceinline__ void round(const Row& row, int label, Statistics& statistics, bool is_last_walk,
                                        const Row& next, bool has_next) {
    auto state = Loss::template identity<Round, 1>();
    ring_.walk(row, Round, is_last_walk, next, has_next, [&](int vector, int slot) {
      columns().template absorb<Round>(state, row, vector, slot, label, statistics);
    });
    state = merge_group<Round>(loss_, Loss::template collapse<Round, 1>(state), merge_, launch_.workspace, ++number_);
    loss_.template finish<Round>(statistics, state);
  }

  __device__ __forceinline__ SplitColumns<Loss, T> columns() const { return {loss_, ring_, call_.teacher.type}; }

  const Loss& loss_;
  const RowCall<float>& call_;
  const SplitLaunch& launch_;
  SplitMerge<split_words<Loss>>& merge_;
  int member_;  ///< of this block in its group
  Ring ring_;
  std::uint32_t number_ = 0;  ///< of the last exchange
};

template <class Loss, class T>
__global__ void __launch_bounds__(split_threads, split_blocks_of<Loss>)
    split_rows(const __grid_constant__ Loss loss, const __grid_constant__ RowCall<float> call,
               const __grid_constant__ SplitLaunch launch) {
  static_assert(split_words<Loss> <= 16, "a larger state needs a smaller split_ring_bytes: two blocks have to fit");
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ SplitMerge<split_words<Loss>> merge;
  SplitBlock<Loss, T>(loss, call, launch, memory, merge).run();
}

}  // namespace vocabloss::Impl

#endif
