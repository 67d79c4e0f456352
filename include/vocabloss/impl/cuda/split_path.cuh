// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_SPLIT_PATH_CUH
#define VOCABLOSS_IMPL_CUDA_SPLIT_PATH_CUH

/// \file
/// \brief Path `split` as the plan sees it: a row cut over a group of blocks, one cooperative launch.

#include <vocabloss/impl/cuda/device_facts.cuh>
#include <vocabloss/impl/cuda/split_shipped.cuh>
#include <vocabloss/tuning/plan.hpp>

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>

#include <string>
#include <type_traits>

namespace vocabloss::Impl {

template <class Loss, class Logit>
struct SplitPath {
  using Real = typename Loss::Real;
  static constexpr bool exists = std::is_same_v<Real, float>;

  static std::string refusal(const Problem& problem, const LaunchPlan&) {
    const std::string reason = DeviceFacts::of_current_device().refusal("split");
    return reason.empty() ? split_refusal(problem) : reason;
  }
  static LaunchPlan choose(const Problem& problem, const PlanRequest&) {
    LaunchPlan plan;
    plan.path = Path::split;
    plan.variant = shape(problem).describe();
    return plan;
  }
  static std::size_t workspace_bytes(const Problem& problem, const LaunchPlan&) {
    if constexpr (exists) return split_workspace_bytes<Loss>(shape(problem));
    return 0;
  }
  /// Once, when the plan is made: the blocks' mailboxes start at zero.
  static void prepare(const Kokkos::Cuda& exec, const Problem& problem, const LaunchPlan& plan, void* workspace) {
    split_initialise(workspace, workspace_bytes(problem, plan), exec.cuda_stream());
  }
  static void run(const Kokkos::Cuda& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, const LaunchPlan&,
                  void* workspace) {
    if constexpr (exists) {
      Kokkos::Profiling::ScopedRegion region("VocabLoss::split::" + std::string(name_of(pass)));
      const int multiprocessors = DeviceFacts::of_current_device().multiprocessors;
      launch_split<Loss, Logit>(loss, call, pass,
                                choose_split_shape(call.rows, call.columns, Loss::streams, Precision<Logit>::type,
                                                   multiprocessors, split_blocks_of<Loss>),
                                workspace, exec.cuda_stream());
    }
  }

 private:
  static SplitShape shape(const Problem& problem) {
    return choose_split_shape(problem.rows, problem.partition.columns, Loss::streams, problem.logits,
                              DeviceFacts::of_current_device().multiprocessors, split_blocks_of<Loss>);
  }
};

}  // namespace vocabloss::Impl

#endif
