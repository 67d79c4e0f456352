// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_EXTERN_TEMPLATES_HPP
#define VOCABLOSS_IMPL_EXTERN_TEMPLATES_HPP

/// \file
/// \brief The kernels of shipped losses that the library holds compiled (src/portable): users' sources only call them.
///
/// A user's own loss, and execution spaces other than Kokkos' two defaults, are instantiated where they are used.
/// Keep in step with the list in src/CMakeLists.txt; a loss that is missing there is a link error.

#include <vocabloss/impl/portable/team_path.hpp>
#include <vocabloss/loss/losses.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Core.hpp>

#include <type_traits>

/// `prefix` is `extern template` here and `template` in the one source that holds the loss.
#define VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, Loss, Exec)                      \
  prefix struct vocabloss::Impl::TeamPath<Loss<float>, vocabloss::bfloat16, Exec>; \
  prefix struct vocabloss::Impl::TeamPath<Loss<float>, vocabloss::float16, Exec>;  \
  prefix struct vocabloss::Impl::TeamPath<Loss<float>, float, Exec>;               \
  prefix struct vocabloss::Impl::TeamPath<Loss<double>, double, Exec>;

#define VOCABLOSS_IMPL_TEAM_PATHS(prefix, Exec)                                      \
  VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, vocabloss::loss::CrossEntropy, Exec)     \
  VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, vocabloss::loss::LogProb, Exec)          \
  VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, vocabloss::loss::ZLoss, Exec)            \
  VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, vocabloss::loss::Entropy, Exec)          \
  VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, vocabloss::loss::LogProbEntropy, Exec)   \
  VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, vocabloss::loss::SoftCrossEntropy, Exec) \
  VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, vocabloss::loss::ForwardKl, Exec)        \
  VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, vocabloss::loss::ReverseKl, Exec)        \
  VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, vocabloss::loss::Jsd, Exec)              \
  VOCABLOSS_IMPL_TEAM_PATHS_OF_LOSS(prefix, vocabloss::loss::SoftCrossEntropyProbabilities, Exec)

VOCABLOSS_IMPL_TEAM_PATHS(extern template, Kokkos::DefaultExecutionSpace)
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
VOCABLOSS_IMPL_TEAM_PATHS(extern template, Kokkos::DefaultHostExecutionSpace)
#endif

#endif
