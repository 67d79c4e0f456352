// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLUSTER_CALL_CUH
#define VOCABLOSS_IMPL_CUDA_CLUSTER_CALL_CUH

/// \file
/// \brief What the warps of a cluster kernel agree on: the launch constants, the layout of shared memory, and
/// the order in which the pieces of rows go round the ring.

#include <vocabloss/impl/cuda/merge_cluster.cuh>
#include <vocabloss/impl/cuda/pack_io.cuh>
#include <vocabloss/impl/cuda/row_layout.hpp>
#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace vocabloss::Impl {

/// Compile-time choices: consumer threads of a row, vectors that each takes from a full piece and stream, blocks that
/// share a multiprocessor, and groups of consumers in a block, each of which takes a row of its own.
///
/// What a warp does once a row takes some 600 instructions, and all of a row's warps do it at about the same time. With
/// groups a warp has more of a row between, and while one group's row is exchanged another's is summed.
template <int Threads, int Vectors, int Lanes = 1, int Blocks = 1, int Groups = 1>
struct ConsumerShape {
  static constexpr int threads = Threads;
  static constexpr int warps = Threads / 32;
  static constexpr int vectors = Vectors;
  static constexpr int lanes = Lanes;  ///< partial sums a thread
  static constexpr int piece_vectors = Threads * Vectors;
  static constexpr int blocks = Blocks;
  static constexpr int groups = Groups;  ///< group g of n takes claims g, g + n, ...
  /// Vectors that the algebra sees as one pack; where two blocks share the registers, one.
  static constexpr int vectors_in_pack = Blocks == 1 ? 2 : 1;
  /// Exchange warps, which take turns. A row's exchange, between GPUs above all, may take as long as its sums and
  /// gradient: one warp would be busy with it all the time, and the next row's states would wait. Where two blocks
  /// share the registers there are none for a second one.
  static constexpr int exchange_warps = Blocks == 1 ? 2 : 1;
  /// Warps of the block: consumers, then the producer, then exchange warps.
  static constexpr int producer_warp = warps * Groups;
  static constexpr int exchange_warp = producer_warp + 1;
  static constexpr int block_threads = Threads * Groups + 32 * (1 + exchange_warps);
  static constexpr bool reads_again = false;  ///< see RereadingShape

  /// Of a consumer.
  __device__ __forceinline__ static int group() { return Groups == 1 ? 0 : threadIdx.x / Threads; }
  __device__ __forceinline__ static int thread_of_group() { return Groups == 1 ? threadIdx.x : threadIdx.x % Threads; }
};

/// One block that does what a cluster would do with a row, to the bit: it takes the slices one after the other, and
/// since a row does not fit, it reads it again, from L2, for every stage after the first.
struct RereadingShape : ConsumerShape<512, 2> {
  using OfCluster = ConsumerShape<512, 2>;
  static constexpr bool reads_again = true;
  /// One: the states of a row's slices go through barriers that those of the next row use too, one after the other.
  static constexpr int exchange_warps = 1;
  static constexpr int block_threads = threads + 32 * (1 + exchange_warps);
};

/// Whether a launch of RereadingShape may run beside a launch. One stream would gain little: at 131072 columns rows of
/// it reach .97 of the streaming kernel on 120 multiprocessors.
template <class Loss, Pass pass, class Shape>
constexpr bool may_share_rows() {
  if (Loss::streams != 2 || Loss::needs_label) return false;
  return pass == Pass::forward_backward && std::is_same_v<Shape, RereadingShape::OfCluster>;
}

/// In device memory, zero before the first launch; each launch leaves the counters zero. Launches that share it must
/// follow one another.
struct ClusterTickets {
  unsigned long long next;  ///< rows claimed so far, beyond those that are dealt
  unsigned int begun;       ///< clusters, where they are numbered
  unsigned int finished;    ///< clusters that will claim no more
  unsigned int launches;    ///< that have ended: counted here, so that a captured launch counts each time it runs
  unsigned int beside;      ///< rows that were claimed beside clusters (RereadingShape), by all launches
};

/// Run-time constants of a launch.
struct ClusterLaunch {
  SliceLayout slices;
  int width;         ///< blocks of the cluster
  int in_turn;       ///< slices that a block takes of a row, one after the other; more than 1 in a RereadingShape
  int ahead;         ///< pieces of the next row that are summed before the gradient of this one
  int slots;         ///< of the ring
  int is_uneven;     ///< not 0: rows have a tail, or begin or end within a vector
  int region_bytes;  ///< a slot's part for one stream
  int slot_bytes;
  ClusterTickets* tickets;   ///< null: rows are dealt round robin
  int sharing;               ///< clusters of all launches that claim from these tickets
  std::int64_t first_claim;  ///< beside another launch: rows that that one deals
  int left_to_others;        ///< beside another launch: of the last rows, that this one leaves to it
};

/// What consumers are told where the shard does not hold the label. Not -1: the first vector of a row that starts
/// within a granule holds the columns before it, -1 among them.
inline constexpr int no_label = -(1 << 30);

inline constexpr int max_slots = 64;
/// Rows for which the exchange warps have room: a few are on chip, and a backward pass asks for a few ahead. A warp
/// that sums its group's next row ahead needs the place of the row before the last no more.
inline constexpr int rows_in_flight = 8;
inline constexpr int max_consumer_warps = 16;
/// Rows whose statistics a pass that streams need not have before it goes on. A consumer that is late with one has
/// released its slots, but not those of the next row: so the producer is fewer rows ahead than there are claims. And
/// the claim itself is retired by the exchange warp, which waits for that consumer.
inline constexpr int streamed_rows_unfinished = 2;

/// Whether rows stay in the ring for another round of statistics, or for their gradient.
template <class Loss, class Shape>
constexpr bool keeps_rows(Pass pass) {
  return !Shape::reads_again && (pass != Pass::forward || Loss::rounds > 1);
}

template <class Loss, int Round>
struct RoundBuffers {
  using State = typename Loss::template State<Round>;
  WordsOf<State> warp_state[rows_in_flight][max_consumer_warps];
  ClusterMailbox<State> mailbox[rows_in_flight];
  Barrier gathered[rows_in_flight];   ///< all consumer warps of the block have left their states
  Barrier exchanged[rows_in_flight];  ///< all blocks of the cluster have sent theirs
  Barrier ready[rows_in_flight];      ///< the row's statistics of this round are posted
};

/// What consumers learn of a row whose statistics are final.
template <class Loss>
using GradientRowOf = decltype(std::declval<Loss>().gradient_row(std::declval<typename Loss::Statistics>(),
                                                                 std::declval<loss::Row<float>>()));
template <class Loss>
struct Posted {
  typename Loss::Statistics statistics;  ///< of the first round, for the second
  GradientRowOf<Loss> gradient_row;
  void* gradient;  ///< where the row's goes
  int label;
  bool masked;
};

struct NoBuffers {};

/// What a consumer warp remembers of its part of a row, for the gradient.
struct SumsNote {
  bool are_finite;      ///< the plain sums
  bool may_hold_peaks;  ///< a column that decides the row may be among those that were summed
};

/// Rows that this cluster has claimed, in order; see row_claims.cuh.
inline constexpr int max_claims = 16;
struct ClaimRing {
  std::int64_t row[max_claims];  ///< -1: there are no more
  Barrier claimed[max_claims];
  Barrier retired[max_claims];  ///< in the first block: all blocks are done with the entry
};

/// At the start of the block's shared memory; the ring of slots follows.
template <class Loss>
struct alignas(128) ClusterShared {
  Barrier full[max_slots];  ///< the slot's copies have landed
  Barrier done[max_slots];  ///< all consumer warps have finished with the slot
  int label[max_slots];     ///< of the row in the slot; only where the loss needs it
  int rank;                 ///< of the block in its cluster: here, because consumers are short of registers
  /// Of claimed rows, once their first slot is full: for the first warp, which has the first vector, and for the
  /// others.
  SliceOfRow slice[max_claims][2];
  ClaimRing claims;
  RoundBuffers<Loss, 0> first;
  std::conditional_t<Loss::rounds == 2, RoundBuffers<Loss, Loss::rounds - 1>, NoBuffers> second;
  Posted<Loss> posted[rows_in_flight];
  SumsNote note[rows_in_flight][max_consumer_warps];

  template <int Round>
  __device__ __forceinline__ auto& round() {
    if constexpr (Round == 0) {
      return first;
    } else {
      return second;
    }
  }
};

/// Which use of a ring buffer a row makes.
struct RowSlot {
  int index;
  std::uint32_t parity;
  __device__ __forceinline__ explicit RowSlot(int row)
      : index(row % rows_in_flight), parity((row / rows_in_flight) & 1) {}
};

/// A position in the ring of slots.
struct RingCursor {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void advance(int slots) {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void advance_by(int count, int slots) {
    for (slot += count; slot >= slots; slot -= slots) parity ^= 1;
  }
  /// `count` positions back, at most once round: a slot that has been waited for, so that its parity does not matter.
  __device__ __forceinline__ RingCursor before(int count, int slots) const {
    return {slot - count + (slot < count ? slots : 0), 0};
  }
};

}  // namespace vocabloss::Impl

#endif
