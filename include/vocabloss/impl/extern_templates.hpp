// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_EXTERN_TEMPLATES_HPP
#define VOCABLOSS_IMPL_EXTERN_TEMPLATES_HPP

/// \file
/// \brief The kernels of shipped losses that the library holds compiled (src/portable): users' sources only call them.
///
/// A user's own loss, and execution spaces other than Kokkos' default (the host, beside a GPU), are instantiated where
/// they are used.
/// Keep in step with the list in src/CMakeLists.txt; a loss that is missing there is a link error.

#include <vocabloss/impl/portable/team_path.hpp>
#include <vocabloss/loss/losses.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Core.hpp>

#include <type_traits>

/// `Class` is a class template over <Loss, Logit, Exec>; `prefix` is `extern template` in headers and `template` in the
/// one source that holds the loss.
#define VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, Loss, Exec) \
  prefix struct Class<Loss<float>, vocabloss::bfloat16, Exec>; \
  prefix struct Class<Loss<float>, vocabloss::float16, Exec>;  \
  prefix struct Class<Loss<float>, float, Exec>;               \
  prefix struct Class<Loss<double>, double, Exec>;

#define VOCABLOSS_IMPL_SHIPPED(prefix, Class, Exec)                                   \
  VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, vocabloss::loss::CrossEntropy, Exec)     \
  VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, vocabloss::loss::LogProb, Exec)          \
  VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, vocabloss::loss::ZLoss, Exec)            \
  VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, vocabloss::loss::Entropy, Exec)          \
  VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, vocabloss::loss::LogProbEntropy, Exec)   \
  VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, vocabloss::loss::SoftCrossEntropy, Exec) \
  VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, vocabloss::loss::ForwardKl, Exec)        \
  VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, vocabloss::loss::ReverseKl, Exec)        \
  VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, vocabloss::loss::Jsd, Exec)              \
  VOCABLOSS_IMPL_SHIPPED_LOSS(prefix, Class, vocabloss::loss::SoftCrossEntropyProbabilities, Exec)

VOCABLOSS_IMPL_SHIPPED(extern template, vocabloss::Impl::TeamPath, Kokkos::DefaultExecutionSpace)

#endif
