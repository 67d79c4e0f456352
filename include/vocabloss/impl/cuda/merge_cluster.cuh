// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_MERGE_CLUSTER_CUH
#define VOCABLOSS_IMPL_CUDA_MERGE_CLUSTER_CUH

/// \file
/// \brief The states of a row in the blocks of a cluster: every block pushes its own into every block's shared memory,
/// itself included, so that all can merge the same states in the same order.
///
/// A push is a remote store that counts its bytes at the receiver's barrier: no cluster-wide barrier, no round trip. A
/// width of 8 and a state of 5 words: 160 bytes arrive at each barrier.

#include <vocabloss/impl/cuda/async.cuh>
#include <vocabloss/impl/cuda/merge_states.cuh>

namespace vocabloss::Impl {

/// The widest cluster that every H100 schedules without asking for a non-portable size.
inline constexpr int max_cluster_width = 8;

/// The receiving end in shared memory, one for each row in flight.
template <class State>
struct ClusterMailbox {
  WordsOf<State> from[max_cluster_width];
};

/// One use of a mailbox, by a whole warp of each block. A cluster of one block needs none.
template <class State>
struct ClusterStates {
  const int width, rank;
  ClusterMailbox<State>& mailbox;
  Barrier* barrier;
  const std::uint32_t parity;

  /// `state`: this block's, in every lane.
  __device__ __forceinline__ void push(const State& state) const {
    if (width == 1) return;
    const int lane = threadIdx.x % 32;
    if (lane == 0) arrive_expecting(barrier, static_cast<std::uint32_t>(width * sizeof(State)));
    if (lane < width) {
      const WordsOf<State> words = to_words(state);
      const std::uint32_t target = peer_address(&mailbox.from[rank], lane);
      const std::uint32_t target_barrier = peer_address(barrier, lane);
      constexpr int step = alignof(WordsOf<State>) / sizeof(float);  // words of a store
#pragma unroll
      for (int w = 0; w < words_of<State>; w += step) {
        const std::uint32_t at = target + w * static_cast<std::uint32_t>(sizeof(float));
        if constexpr (step == 4) {
          store_remotely(at, {words.word[w], words.word[w + 1], words.word[w + 2], words.word[w + 3]}, target_barrier);
        } else {
          store_remotely(at, words.word[w], target_barrier);
        }
      }
    }
    __syncwarp();
  }
  /// After every block's push: `from` may be called.
  __device__ __forceinline__ void wait() const {
    if (width > 1) wait_for_cluster(barrier, parity);
  }
  /// A block's state; `own` is this block's.
  __device__ __forceinline__ State from(int block, const State& own) const {
    return width == 1 ? own : from_words(mailbox.from[block]);
  }
};

}  // namespace vocabloss::Impl

#endif
