// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_LOSS_DISPATCH_HPP
#define VOCABLOSS_IMPL_LOSS_DISPATCH_HPP

/// \file
/// \brief From options to the algebra that runs: the place where a special value of an option is another loss.

#include <vocabloss/loss/jsd.hpp>
#include <vocabloss/loss/reverse_kl.hpp>
#include <vocabloss/loss/teacher_weighted.hpp>

#include <type_traits>

namespace vocabloss::Impl {

/// Calls `visitor` with the algebra. JSD at beta 0 and 1 is forward and reverse KL by definition, not as a limit.
template <template <class> class Loss, class Real, class Options, class Visitor>
void dispatch_loss(const Options& options, Visitor&& visitor) {
  if constexpr (std::is_same_v<Loss<Real>, loss::Jsd<Real>>) {
    static_assert(sizeof(typename loss::ForwardKl<Real>::Statistics) <= sizeof(typename loss::Jsd<Real>::Statistics) &&
                  sizeof(typename loss::ReverseKl<Real>::Statistics) <= sizeof(typename loss::Jsd<Real>::Statistics));
    if (options.jsd_beta == 0) return visitor(loss::ForwardKl<Real>(options));
    if (options.jsd_beta == 1) return visitor(loss::ReverseKl<Real>(options));
  }
  visitor(Loss<Real>(options));
}

}  // namespace vocabloss::Impl

#endif
