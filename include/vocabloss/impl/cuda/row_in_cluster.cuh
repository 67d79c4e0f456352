// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_ROW_IN_CLUSTER_CUH
#define VOCABLOSS_IMPL_CUDA_ROW_IN_CLUSTER_CUH

/// \file
/// \brief The kernel of path `cluster`: a row stays on chip between its statistics and its gradient.
///
/// Each logit is read once and each gradient written once. The grid is as many clusters as the GPU holds; each cluster
/// claims rows one by one (row_claims.cuh), and each of its blocks takes a fixed slice of the row's columns. In a block
///
///     warps 0 .. W-1   consumers: statistics and gradient          consumer.cuh
///     warp W           producer: copies in                         producer.cuh
///     from warp W+1    exchange: merges over warps, blocks, ranks  row_exchange.cuh
///
/// meet in a ring of slots in shared memory, each with a piece of a row: 16 KiB of logits and as much of the teacher, 6
/// slots, say. They hand slots and rows to one another by barriers in shared memory; no barrier spans the block. The
/// ring holds pieces and not rows, so that copies of the next row begin while the gradient of this one is written.
/// Gradients go to memory from registers: what bounds a kernel of two streams is how soon a slot can be filled again,
/// and one that a gradient had to leave by would be filled a piece later. Of short rows a block takes two at once, with
/// half of its consumers each.
///
/// Where rows are so long that clusters of several blocks leave multiprocessors over, a second launch runs there:
/// blocks that each do a cluster's work alone, for which a row does not fit and is read again from L2 (RereadingShape).

#include <vocabloss/impl/cuda/consumer.cuh>
#include <vocabloss/impl/cuda/producer.cuh>
#include <vocabloss/impl/cuda/row_exchange.cuh>

namespace vocabloss::Impl {

template <class Buffers>
__device__ __forceinline__ void initialise_round(Buffers& buffers, int consumer_warps) {
  for (int i = 0; i < rows_in_flight; ++i) {
    initialise(&buffers.gathered[i], consumer_warps);
    initialise(&buffers.exchanged[i], 1);
    initialise(&buffers.ready[i], 1);
  }
}

template <class Loss, class T, Pass pass, class Shape, class RankExchange>
__global__ void __launch_bounds__(Shape::block_threads, Shape::blocks)
    row_in_cluster(const __grid_constant__ Loss loss, const __grid_constant__ RowCall<float> call,
                   const __grid_constant__ ClusterLaunch launch, const __grid_constant__ RankExchange ranks) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<ClusterShared<Loss>*>(memory);
  unsigned char* ring = memory + sizeof(ClusterShared<Loss>);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int rank = rank_in_cluster();
  // Before the barrier below: a launch counts as ended, for the next one, once all clusters are past their last claim.
  const int turn = warp - Shape::exchange_warp;
  auto peers = ranks.template open<Loss>(launch.width, rank);

  if (threadIdx.x == 0) {
    for (int i = 0; i < launch.slots; ++i) {
      initialise(&shared.full[i], 1);
      initialise(&shared.done[i], Shape::warps);
    }
    for (int i = 0; i < max_claims; ++i) {
      initialise(&shared.claims.claimed[i], 1);
      initialise(&shared.claims.retired[i], launch.width * 2);
    }
    shared.rank = rank;
    initialise_round(shared.first, Shape::warps);
    if constexpr (Loss::rounds == 2) initialise_round(shared.second, Shape::warps);
    publish_initialised_barriers();
    if constexpr (may_share_rows<Loss, pass, Shape>() && !RankExchange::clusters_meet) let_next_launch_begin();
  }
  __syncthreads();
  synchronise_cluster();

  const RowClaims claims{shared.claims, launch.width};
  if (warp == Shape::producer_warp) {
    if (lane == 0) {
      const RowClaimer<Shape::reads_again> claimer(shared.claims, launch, call.rows, rank, RankExchange::clusters_meet);
      Producer<Loss, T, pass, Shape>{call, launch, claims, claimer, shared, ring, rank}.run();
    }
  } else if (turn >= 0) {
    ExchangeWarp<Loss, T, pass, Shape, decltype(peers)>{loss, call, launch, peers, claims, shared, rank, turn, lane}
        .run();
  } else {
    Consumer<Loss, T, pass, Shape>{
        loss,
        {call, launch, claims, shared, Shape::thread_of_group(),
         kept_shared_address(ring) + Shape::thread_of_group() * 16, kept_shared_address(&shared)}}
        .run();
  }
  // A block must outlive the stores that its peers send it.
  __syncwarp();
  synchronise_cluster();
  if constexpr (Shape::reads_again) wait_for_launch_before();
}

}  // namespace vocabloss::Impl

#endif
