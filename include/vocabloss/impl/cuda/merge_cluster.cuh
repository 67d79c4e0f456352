// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_MERGE_CLUSTER_CUH
#define VOCABLOSS_IMPL_CUDA_MERGE_CLUSTER_CUH

/// \file
/// \brief The algebra's merge over the blocks of a cluster: every block pushes its state into every block's shared
/// memory, itself included, and then merges the same states in the same order.
///
/// A push is a remote store that counts its bytes at the receiver's barrier: no cluster-wide barrier, no round trip. A
/// width of 8 and a state of 5 words: 160 bytes arrive at each barrier.

#include <vocabloss/impl/cuda/async.cuh>
#include <vocabloss/impl/cuda/merge_block.cuh>

namespace vocabloss::Impl {

/// The widest cluster that every H100 schedules without asking for a non-portable size.
inline constexpr int max_cluster_width = 8;

/// The receiving end in shared memory, one for each row in flight.
template <class State>
struct ClusterMailbox {
  WordsOf<State> from[max_cluster_width];
};

/// By a whole warp of each block, with this block's state in every lane. `parity` is that of the mailbox's use.
template <int Round, class Loss, class State>
__device__ __forceinline__ State merge_cluster(const Loss& loss, const State& state, int width, int rank,
                                               ClusterMailbox<State>& mailbox, Barrier* barrier, std::uint32_t parity) {
  if (width == 1) return state;
  const int lane = threadIdx.x % 32;
  if (lane == 0) arrive_expecting(barrier, static_cast<std::uint32_t>(width * sizeof(State)));
  if (lane < width) {
    const WordsOf<State> words = to_words(state);
    const std::uint32_t target = peer_address(&mailbox.from[rank], lane);
    const std::uint32_t target_barrier = peer_address(barrier, lane);
#pragma unroll
    for (int w = 0; w < words_of<State>; ++w) {
      store_remotely(target + w * sizeof(float), words.word[w], target_barrier);
    }
  }
  __syncwarp();
  wait_for_cluster(barrier, parity);
  const State mine = from_words(mailbox.from[lane % width]);
  return merge_lanes<Round>(loss, mine, width);
}

}  // namespace vocabloss::Impl

#endif
