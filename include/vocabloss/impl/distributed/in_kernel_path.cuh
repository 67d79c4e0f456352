// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_IN_KERNEL_PATH_CUH
#define VOCABLOSS_IMPL_DISTRIBUTED_IN_KERNEL_PATH_CUH

/// \file
/// \brief Exchange `in_kernel`: path cluster over the shard, with the states of a row crossing NVLink from inside the
/// kernel. One read, one write, one launch, whatever the number of ranks.
///
/// Ranks make the same launches in the same order; two plans that exchange in kernels over the same GPUs must not run
/// at once on streams of their own (each might hold one GPU and wait for the other), as with NCCL.

#include <vocabloss/impl/cuda/cluster_path.cuh>
#include <vocabloss/impl/cuda/cluster_shapes_over_ranks.hpp>
#include <vocabloss/impl/distributed/in_kernel_absent.hpp>
#include <vocabloss/impl/distributed/peer_memory.hpp>

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

namespace vocabloss::Impl {

template <class Loss, class Logit>
struct InKernelPath<Loss, Logit, Kokkos::Cuda> {
  using Real = typename Loss::Real;
  using Cluster = ClusterPath<Loss, Logit>;
  static constexpr bool exists = Cluster::exists;

  static std::string refusal(const Problem& problem, const LaunchPlan& plan, int ranks) {
    if (ranks > max_peer_ranks) {
      return "exchange in_kernel knows at most " + std::to_string(max_peer_ranks) + " ranks, not " +
             std::to_string(ranks) + ": use exchange allgather";
    }
    if (ranks * plan.cluster.width > max_peer_states) {
      return "exchange in_kernel merges the states of at most " + std::to_string(max_peer_states) +
             " blocks a row, not " + std::to_string(ranks) + " ranks of " + std::to_string(plan.cluster.width) +
             ": use exchange allgather";
    }
    const std::string reason = Cluster::refusal(problem, plan);
    return reason.empty() ? "" : "exchange in_kernel: " + reason + ", with exchange allgather";
  }
  /// The same on all ranks: for the largest shard.
  static LaunchPlan choose(const Problem& shard, std::int64_t most_columns, const PlanRequest& request) {
    Problem problem = shard;
    problem.partition.columns = most_columns;
    LaunchPlan plan = Cluster::choose(problem, request);
    if (request.variant.empty() && !plan.variant.empty()) {
      plan.cluster = choose_cluster_shape_over_ranks(problem.partition.columns, problem.logits, Loss::streams,
                                                     Loss::rounds, plan.cluster, problem.rows);
      plan.cluster_forward = plan.cluster;  // all passes exchange through windows cut for one width
      plan.variant = plan.cluster.describe();
    }
    return plan;
  }
  static std::size_t workspace_bytes(const Problem& problem, const LaunchPlan& plan) {
    return Cluster::workspace_bytes(problem, plan);
  }
  static std::size_t window_bytes(const Problem& problem, const LaunchPlan& plan) {
    return peer_window_bytes<Loss>(problem.rows, plan.ranks, plan.cluster.width);
  }
  static void prepare(const Kokkos::Cuda& exec, const Problem& problem, const LaunchPlan& plan, void* workspace) {
    Cluster::prepare(exec, problem, plan, workspace);
  }
  /// `rows`, `time_limit`: of the plan, the same on all ranks.
  static void run(const Kokkos::Cuda& exec, const Loss& loss, const RowCall<Real>& call, Pass pass,
                  const LaunchPlan& plan, void* workspace, const PeerMemory& memory, int rank, std::int64_t rows,
                  std::chrono::milliseconds time_limit) {
    if (pass == Pass::backward) {  // the statistics are already those of all ranks
      if (call.columns > 0) Cluster::run(exec, loss, call, pass, plan, workspace);
      return;
    }
    if constexpr (exists) {
      const Kokkos::Profiling::ScopedRegion region("VocabLoss::cluster::ranks::" + std::string(name_of(pass)));
      PeerExchange peers{};
      peers.rank = rank;
      peers.ranks = plan.ranks;
      for (int other = 0; other < plan.ranks; ++other) peers.window[other] = memory.window(other);
      peers.rows = rows;
      peers.time_limit = static_cast<std::uint64_t>(std::chrono::nanoseconds(time_limit).count());
      peers.tickets = static_cast<const ClusterTickets*>(workspace);
      peers.lost_on_host = memory.lost();
      launch_cluster_over_ranks<Loss, Logit>(loss, call, pass, plan.cluster, static_cast<ClusterTickets*>(workspace),
                                             peers, exec.cuda_stream());
    }
  }
};

}  // namespace vocabloss::Impl

#endif
