// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_TEAM_STATE_HPP
#define VOCABLOSS_IMPL_PORTABLE_TEAM_STATE_HPP

/// \file
/// \brief The state of a row from the threads of a GPU's team: plainly where that serves, else exactly.

#include <vocabloss/impl/portable/device_row.hpp>
#include <vocabloss/impl/portable/state_reducer.hpp>

namespace vocabloss::Impl {

/// The state of a row whose columns were all summed plainly. False, seldom: one column decides the row or a term is
/// infinite, and it is to be summed exactly.
template <int Round, class Loss, class Real = typename Loss::Real>
KOKKOS_INLINE_FUNCTION bool settle_plainly(const Loss& loss, const PlainState<Real>& total,
                                           const typename Loss::Statistics& statistics,
                                           typename Loss::template State<Round>& state) {
  state = loss.template from_plain<Round>(total.sums, statistics);
  if constexpr (Loss::needs_label) loss.note_label(state, total.label_logit);
  // Nothing stands in for columns of other rows here: what must add nothing is a minus infinity.
  return loss.template is_good<Round>(total.sums, statistics, -static_cast<Real>(__builtin_inff()));
}

/// What the threads of a team find together, the same for all of them.
template <int Round, class Member, class Loss, class Row>
KOKKOS_INLINE_FUNCTION typename Loss::template State<Round> find_state_of_team(
    const Member& member, const Loss& loss, const Row& row, const typename Loss::Statistics& statistics, int label) {
  if constexpr (sums_plainly<Loss, Round>) {
    typename Loss::template State<Round> state;
    const auto total =
        merge_team<PlainMerge<Loss, Round>>(member, loss, row.template sum_plainly<Round>(statistics, label));
    if (settle_plainly<Round>(loss, total, statistics, state)) return state;
  }
  return merge_team<ExactMerge<Loss, Round>>(member, loss, row.template find_state<Round>(statistics, label));
}

}  // namespace vocabloss::Impl

#endif
