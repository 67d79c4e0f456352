// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_STAGES_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_STAGES_HPP

/// \file
/// \brief Who runs the stages between exchanges: the kernel of path `team` cut in pieces, or the kernels of path
/// `cluster` where the GPU has them.
///
///               path team (stage_kernel.hpp)                 path cluster, losses of one round
///     stage 0   partial states                               the forward kernel, which leaves the states of its rows
///     last      merge, finish, losses, gradient: one kernel  merge, finish, losses: a thread a row; then the backward
///                                                            kernel, from the saved statistics
///
/// Path cluster moves as many bytes, at the speed of memory, and needs no cache for it. An empty shard has no row that
/// its kernels could read: it takes the team's stage, which then only tells the state of no column.

#include <vocabloss/impl/distributed/stage_launch.hpp>
#include <vocabloss/impl/path_list.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

namespace vocabloss::Impl {

template <class Loss, class Logit, class Exec>
class Stages {
 public:
  using Real = typename Loss::Real;
  using Cluster = typename CudaPaths<Loss, Logit, Exec>::Cluster;

  /// Why this rank can run no stage on path cluster, however short its rows; or empty.
  static std::string refusal_here(const Problem& problem) {
    try {
      return Cluster::refusal(with_columns(problem, 1), LaunchPlan{});
    } catch (const std::exception& error) {  // the other ranks wait to be told
      return error.what();
    }
  }
  /// Launch choices of path cluster for the largest shard: the same on all ranks.
  static LaunchPlan choose_cluster(const Problem& problem, std::int64_t most_columns, const PlanRequest& request) {
    return Cluster::choose(with_columns(problem, most_columns), request);
  }
  /// Why `plan` cannot run on path cluster, or empty.
  static std::string cluster_refusal(const Problem& problem, std::int64_t most_columns, const LaunchPlan& plan) {
    if (Loss::rounds == 2) {
      return "path cluster exchanges states between two kernels once a call, and this loss exchanges twice: use path "
             "team, or path cluster with exchange in_kernel";
    }
    const std::string reason = Cluster::refusal(with_columns(problem, most_columns), plan);
    return reason.empty() ? reason : reason + ". Between ranks, path team runs it";
  }

  /// Of the workspace, at its start, before what the exchange needs.
  static std::size_t workspace_bytes(const Problem& problem, const LaunchPlan& plan) {
    if (plan.path != Path::cluster) return 0;
    return (Cluster::workspace_bytes(problem, plan) + 127) / 128 * 128;  // exchanges want aligned buffers
  }
  static void prepare(const Exec& exec, const Problem& problem, const LaunchPlan& plan, void* workspace) {
    if constexpr (requires { Cluster::prepare(exec, problem, plan, workspace); }) {
      if (plan.path == Path::cluster) Cluster::prepare(exec, problem, plan, workspace);
    }
  }

  Stages(const LaunchPlan& plan, void* workspace) : plan_(plan), workspace_(workspace) {}

  /// Enqueues a stage over the rows of `call`. `merged`: the states of the round before; `states` takes this shard's.
  template <int Stage>
  void run(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, const MergedStates<Real>& merged,
           Real* states) const {
    const bool is_on_cluster = plan_.path == Path::cluster && call.columns > 0;
    if (Stage == 0 && is_on_cluster) return leave_states(exec, loss, call, states);
    if (Stage == 1 && plan_.path == Path::cluster) {
      StageLaunch<Loss, Logit, Exec>::finish(exec, loss, call, merged);
      if (pass != Pass::forward) run_backward(exec, loss, call);
      return;
    }
    run_stage<Stage, Logit>(exec, loss, call, pass, plan_, merged, states);
  }

  /// The gradient from statistics that are those of all ranks.
  void run_backward(const Exec& exec, const Loss& loss, const RowCall<Real>& call) const {
    if (call.columns == 0) return;
    if (plan_.path == Path::cluster) {
      Cluster::run(exec, loss, call, Pass::backward, plan_, workspace_);
    } else {
      TeamPath<Loss, Logit, Exec>::run(exec, loss, call, Pass::backward, plan_, nullptr);
    }
  }

  /// Rows that an error left unfinished.
  void poison(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass) const {
    poison_rows<Logit>(exec, loss, call, pass, plan_);
  }

 private:
  static Problem with_columns(const Problem& problem, std::int64_t columns) {
    Problem result = problem;
    result.partition.columns = columns;
    return result;
  }

  void leave_states(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Real* states) const {
    RowCall<Real> silent = call;  // losses and statistics of a shard alone are nobody's
    silent.losses[0] = silent.losses[1] = nullptr;
    silent.statistics = nullptr;
    silent.gradient = {};
    Cluster::run(exec, loss, silent, Pass::forward, plan_, workspace_, states);
  }

  const LaunchPlan& plan_;
  void* workspace_;
};

}  // namespace vocabloss::Impl

#endif
