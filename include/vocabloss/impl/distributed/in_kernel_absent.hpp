// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_IN_KERNEL_ABSENT_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_IN_KERNEL_ABSENT_HPP

/// \file
/// \brief Exchange `in_kernel` where there is none: a build without VocabLoss::cuda, or another execution space.
/// in_kernel_path.cuh has the one that runs.

#include <vocabloss/tuning/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace vocabloss::Impl {

template <class Loss, class Logit, class Exec>
struct InKernelPath {
  static constexpr bool exists = false;
  static std::string refusal(const Problem&, const LaunchPlan&, int) {
    return "exchange in_kernel runs on NVIDIA GPUs of compute capability 9.0 only: from Kokkos' CUDA execution space, "
           "linked with VocabLoss::cuda (built with VocabLoss_ENABLE_CUDA): use exchange allgather";
  }
  static LaunchPlan choose(const Problem&, std::int64_t, const PlanRequest&) { return {}; }
  static std::size_t workspace_bytes(const Problem&, const LaunchPlan&) { return 0; }
};

}  // namespace vocabloss::Impl

#endif
