// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLUSTER_PATH_CUH
#define VOCABLOSS_IMPL_CUDA_CLUSTER_PATH_CUH

/// \file
/// \brief Path `cluster` as the plan sees it: the row stays on chip, one read and one write.

#include <vocabloss/impl/cuda/cluster_shapes.hpp>
#include <vocabloss/impl/cuda/cluster_shipped.cuh>
#include <vocabloss/impl/cuda/device_facts.cuh>
#include <vocabloss/tuning/plan.hpp>

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>

#include <string>
#include <type_traits>

namespace vocabloss::Impl {

template <class Loss, class Logit>
struct ClusterPath {
  using Real = typename Loss::Real;
  static constexpr bool exists = std::is_same_v<Real, float>;

  static std::string refusal(const Problem& problem, const LaunchPlan& plan) {
    const DeviceFacts device = DeviceFacts::of_current_device();
    const std::string reason = device.refusal("cluster");
    if (!reason.empty()) return reason;
    const ClusterProblem asked{problem.partition.columns,
                               problem.logits,
                               problem.teacher.value_or(problem.logits),
                               problem.gradient.value_or(problem.logits),
                               Loss::streams,
                               Loss::rounds,
                               90};
    const std::string refused = cluster_refusal(asked);
    return refused.empty() && !plan.variant.empty() ? shape_refusal(asked, plan.cluster) : refused;
  }
  static LaunchPlan choose(const Problem& problem, const PlanRequest& request) {
    const ClusterShape* chosen = choose_cluster_shape(problem.partition.columns, Precision<Logit>::type, Loss::streams,
                                                      Loss::rounds, problem.rows);
    LaunchPlan plan;
    plan.path = Path::cluster;
    if (!request.variant.empty() || chosen) {
      plan.cluster = request.variant.empty() ? *chosen : ClusterShape::parse(request.variant);
      plan.cluster_forward = plan.cluster;
      if (request.variant.empty()) {
        plan.cluster_forward = choose_forward_cluster_shape(
            problem.partition.columns, problem.rows, Precision<Logit>::type, Loss::streams, Loss::rounds, plan.cluster);
      }
      plan.variant = plan.cluster.describe();
    }
    return plan;
  }
  static std::size_t workspace_bytes(const Problem&, const LaunchPlan&) { return sizeof(ClusterTickets); }
  /// Once, when the plan is made: the counter that deals rows to clusters starts at zero.
  static void prepare(const Kokkos::Cuda& exec, const Problem&, const LaunchPlan&, void* workspace) {
    cluster_initialise(static_cast<ClusterTickets*>(workspace), exec.cuda_stream());
  }
  /// `states`: where a forward leaves the states of the rows, for a vocabulary that ranks share; null: nowhere.
  static void run(const Kokkos::Cuda& exec, const Loss& loss, const RowCall<Real>& call, Pass pass,
                  const LaunchPlan& plan, void* workspace, Real* states = nullptr) {
    if constexpr (exists) {
      Kokkos::Profiling::ScopedRegion region("VocabLoss::cluster::" + std::string(name_of(pass)));
      const ClusterShape& shape = pass == Pass::forward ? plan.cluster_forward : plan.cluster;
      launch_cluster<Loss, Logit>(loss, call, pass, shape, static_cast<ClusterTickets*>(workspace), exec.cuda_stream(),
                                  states);
    }
  }

 private:
  /// Of a shape that was asked for: whether it is compiled and holds the row.
  static std::string shape_refusal(const ClusterProblem& problem, const ClusterShape& shape) {
    if (!visit_consumer_shape<Loss::streams, Loss::rounds>(shape, [](auto) {})) {
      return "path cluster has no kernel of shape " + shape.describe() + ": leave the variant to the plan";
    }
    if (shape.holds(vectors_of(problem.columns, problem.logits), problem.streams)) return "";
    return "a row of " + std::to_string(problem.columns) + " columns does not fit a cluster of shape " +
           shape.describe() + ": ask for a wider one, or leave the variant to the plan";
  }
};

}  // namespace vocabloss::Impl

#endif
