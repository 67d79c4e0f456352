// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_VOCABLOSS_HPP
#define VOCABLOSS_VOCABLOSS_HPP

/// \file
/// \brief The whole library, and the one-shot functions: a loss and its gradient in one call.
///
/// The functions below make a Plan, run it once and wait. In a training loop make a Plan instead: it allocates once,
/// and its calls only enqueue.

#include <vocabloss/batch.hpp>
#include <vocabloss/config.hpp>
#include <vocabloss/error.hpp>
#include <vocabloss/loss/losses.hpp>
#include <vocabloss/plan.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Core.hpp>

namespace vocabloss {

/// \brief Losses of every row, once.
/// \tparam Loss  a loss template, e.g. loss::CrossEntropy
/// \param exec   instance to run on; fenced before the return
/// \param batch  what to read and write (batch.hpp)
/// \throws InvalidArgument, PathRefused  as Plan's constructor
template <template <class> class Loss, class Logit, class Exec>
void forward(const Exec& exec, const Batch<Logit, Exec>& batch,
             const typename Plan<Loss, Logit, Exec>::Options& options = {}, const PlanRequest& request = {}) {
  Plan<Loss, Logit, Exec>(exec, batch, options, request).forward(exec, batch);
  exec.fence("VocabLoss::forward");
}

/// \brief Losses and gradient of every row, once. Parameters and errors as `forward`.
/// \par Example unit_tests/api/test_readme_example.cpp
template <template <class> class Loss, class Logit, class Exec>
void forward_backward(const Exec& exec, const Batch<Logit, Exec>& batch,
                      const typename Plan<Loss, Logit, Exec>::Options& options = {}, const PlanRequest& request = {}) {
  Plan<Loss, Logit, Exec>(exec, batch, options, request).forward_backward(exec, batch);
  exec.fence("VocabLoss::forward_backward");
}

}  // namespace vocabloss

#endif
