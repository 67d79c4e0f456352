// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_ROW_CLAIMS_CUH
#define VOCABLOSS_IMPL_CUDA_ROW_CLAIMS_CUH

/// \file
/// \brief Which rows a cluster works on: claimed one at a time, so that clusters that memory serves better take more.
///
/// Multiprocessors do not progress equally: with rows dealt round robin the average one stood idle for 6 to 8 % of a
/// launch (reverse KL, 32768 and 65536 columns, H100). The producer of the cluster's first block claims a row when its
/// ring has room for it, and sends its number to all blocks of the cluster, where producer and exchange warp read it in
/// turn (consumers learn of rows by their slots):
///
///     claim k -> ring entry k % 16 in every block -> ... -> retired by every block -> claim k + 16
///
/// A cluster's first rows are dealt: without ranks to wait for, one, which saves a microsecond. Where ranks exchange
/// row by row, half of them: clusters are numbered as they begin, and equal numbers get the same rows on every rank, so
/// that the same clusters meet each time and need not wait for a new late one with every row. (With all rows claimed
/// reverse KL took 1 to 3 % longer over four NVIDIA H200, up to 1 % over two, 2026-11-28.) The other half is claimed,
/// since clusters progress unequally. A cluster's rows ascend in any case: the first row that some rank still lacks is
/// then always one that the others have begun, or will begin as soon as a cluster before them ends. A cluster of one
/// block keeps to local barriers.

#include <vocabloss/impl/cuda/cluster_call.cuh>

#include <climits>

namespace vocabloss::Impl {

/// The reading end: of any warp. Entries are used in order.
struct RowClaims {
  ClaimRing& ring;
  const int width;

  /// Row of the k-th claim; negative if there are no more.
  __device__ __forceinline__ std::int64_t wait_for(int k) const {
    wait(&ring.claimed[k % max_claims], (k / max_claims) & 1);
    return ring.row[k % max_claims];
  }
  /// Whether there is one, as far as is known by now.
  __device__ __forceinline__ bool has(int k) const {
    return has_ended(&ring.claimed[k % max_claims], (k / max_claims) & 1) && ring.row[k % max_claims] >= 0;
  }
  /// Row of the k-th claim, after the first time.
  __device__ __forceinline__ std::int64_t row(int k) const { return ring.row[k % max_claims]; }

  /// For one lane, once its warp will not read the k-th claim again. Producers say so for the consumers, who are done
  /// with a row when they are done with its slots.
  __device__ __forceinline__ void retire(int k) const {
    Barrier* retired = &ring.retired[k % max_claims];
    if (width == 1) {
      arrive(retired);
    } else {
      arrive_remotely(peer_address(retired, 0));
    }
  }
};

/// The writing end: the producer of every block. `is_beside`: of a launch beside another, which deals rows
/// (RereadingShape).
template <bool is_beside>
struct RowClaimer {
  ClaimRing& ring;
  const ClusterLaunch& launch;
  ClusterTickets* tickets;
  const std::int64_t rows;
  const int width, rank;
  const int clusters;
  const bool are_numbered;  ///< clusters, as they begin
  const int dealt;          ///< rows of each cluster that need no claim
  std::int64_t next;
  int asked = 0;  ///< rows so far
  bool ended = false;

  __device__ __forceinline__ RowClaimer(ClaimRing& claim_ring, const ClusterLaunch& of_launch, std::int64_t row_count,
                                        int block_rank, bool clusters_meet)
      : ring(claim_ring),
        launch(of_launch),
        tickets(of_launch.tickets),
        rows(row_count),
        width(of_launch.width),
        rank(block_rank),
        clusters(gridDim.x / of_launch.width),
        are_numbered(clusters_meet),
        dealt(is_beside ? 0 : rows_dealt()),
        next(blockIdx.x / of_launch.width) {}

  __device__ __forceinline__ void begin(int pieces) {
    if ((are_numbered || is_beside) && rank == 0) next = dealt > 0 ? atomicAdd(&tickets->begun, 1u) : claim();
    publish(0);
    if (pieces == 1) request();
  }

  /// Called with each piece of the k-th row that is about to be loaded. A ticket takes a microsecond to come, and as
  /// long to reach the other blocks: so the next row is asked for two pieces, and made known one piece, before it is
  /// needed. Earlier would be worse: rows claimed and not begun are what makes clusters finish unequally.
  __device__ __forceinline__ void advance(int k, int piece, int pieces) {
    if (piece == (pieces > 2 ? pieces - 2 : pieces - 1)) publish(k + 1);
    if (piece == (pieces > 3 ? pieces - 3 : 0)) request();
  }

 private:
  __device__ __forceinline__ int rows_dealt() const {
    if (tickets == nullptr) return INT_MAX;
    return are_numbered ? static_cast<int>(rows / clusters / 2) : 1;
  }
  __device__ __forceinline__ void request() {
    if (rank != 0 || ended) return;  // after the end the counters may be zero again, for the next launch
    if (++asked < dealt) {
      next += clusters;
    } else {
      next = claim();
    }
  }
  __device__ __forceinline__ std::int64_t claim() {
    if constexpr (is_beside) {
      const auto claimed = *static_cast<const volatile unsigned long long*>(&tickets->next);
      if (launch.first_claim + static_cast<std::int64_t>(claimed) + launch.left_to_others >= rows) return rows;
      atomicAdd(&tickets->beside, 1u);
    }
    const std::int64_t first = is_beside ? launch.first_claim : static_cast<std::int64_t>(dealt) * clusters;
    return first + static_cast<std::int64_t>(atomicAdd(&tickets->next, 1ull));
  }

  /// Makes the k-th claim known in all blocks.
  __device__ __forceinline__ void publish(int k) {
    if (ended) return;
    const int entry = k % max_claims;
    Barrier* claimed = &ring.claimed[entry];
    if (width > 1) arrive_expecting(claimed, sizeof(std::int64_t));
    if (rank != 0) return;
    if (k >= max_claims) wait_for_cluster(&ring.retired[entry], ((k / max_claims) - 1) & 1);
    const std::int64_t row = next < rows ? next : -1;
    ended = row < 0;
    if (width == 1) {
      ring.row[entry] = row;
      arrive(claimed);
    }
    for (int peer = 0; width > 1 && peer < width; ++peer) {
      store_remotely(peer_address(&ring.row[entry], peer), row, peer_address(claimed, peer));
    }
    if (ended && tickets && atomicAdd(&tickets->finished, 1u) + 1 == static_cast<unsigned>(launch.sharing)) {
      // The last cluster to come to the end: nobody claims any more.
      tickets->next = 0;
      tickets->begun = 0;
      tickets->finished = 0;
      ++tickets->launches;
    }
  }
};

}  // namespace vocabloss::Impl

#endif
