// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_CONCEPT_HPP
#define VOCABLOSS_LOSS_CONCEPT_HPP

/// \file
/// \brief The algebra of a loss: what a type must offer to run on every path of the library.
///
/// A loss is a class template over the accumulate type `Real` (float or double), trivially copyable, made from an
/// `Options` aggregate. It is asked, in this order, for every row:
///
///     for each round r:
///       state = identity<r>()                      the statistics of no column
///       raise<r>(state, max_x, max_t)              lift the maxima, rescale what is relative to them
///       accumulate<r>(state, statistics, columns, label)   add N columns, none above the maxima
///       merge<r>(state, other)                     two pieces of a row: lanes, warps, CTAs, clusters, ranks
///       add<r>(state, other)                       the same where the maxima are equal, for any Lanes; optional: saves
///       work
///                                                  in a warp, and lets a CPU sum a long row piece by piece
///       finish<r>(statistics, state)               row statistics of this round
///     value(statistics, output)                    the losses
///     slope = gradient_row(statistics, row)        once a row: the constants of the gradient
///     gradient(slope, columns, label)              N columns of dL/dx
///
/// Constants: `streams` (1: logits; 2: logits and teacher), `teacher_is_logits` (the second stream has a maximum),
/// `needs_label`, `rounds` (1 or 2; each round reads the row once and costs one exchange), `outputs` (1 or 2).
/// `State<r, Lanes>` keeps its sums in `Lanes` partial sums, `State<r>` is the merged form; `collapse` goes from one to
/// the other. `State<r>` and `Statistics` are made of `Real`s only: they travel as such through shared memory,
/// workspaces and messages, and a row is poisoned by filling its statistics with NaN.
///
/// Laws, each a test in unit_tests/loss: identity is neutral; merge is associative and commutative up to rounding; any
/// cut of a row into pieces gives the same statistics; a piece of minus infinities is neutral; gradient is the
/// derivative of value.
///
/// What a loss may offer besides, for the kernels that count instructions (paths `cluster` and, on a GPU, `team`;
/// without it they use what is above):
///     round_sums<r>                              which sums a round has
///     raise_plainly<r>(sums, max_x, max_t)       as raise, of PlainSums: a state that does not tell columns at the
///                                                maximum from others
///     sum_plainly<r>(sums, statistics, columns)  adds N columns to it
///     is_good<r>(sums, statistics, low)          of a merged one: whether it may be used, also where columns of value
///                                                `low` were to add nothing. The sums of softmaxes that it is given are
///                                                in units of their largest column, or of a few that have it among them
///     from_plain<r>(sums, statistics) -> State<r>
///     note_label(state, x)                       the logit of the label, which sum_plainly does not look for
///     plain_gradient(slope, columns)             the gradient of columns that are not the label
///     has_plain_gradient(slope)                  whether this row has one
///     is_at_maximum(slope, max_x, max_t)         optional: whether columns up to these values need `gradient` in a row
///                                                that cares_for_maxima(slope). That must be a row of which no part
///                                                that holds such a column has sums that are good
///     plain_gradient_may_be_nan                  whether NaN may mean no more than that `gradient` is needed; not
///                                                for columns whose plain sums of the last round are finite
///
/// A user's own loss that satisfies the concept gets every path; see unit_tests/loss/test_custom_loss.cpp.

#include <vocabloss/loss/online_softmax.hpp>
#include <vocabloss/loss/pack.hpp>

#include <concepts>
#include <type_traits>

namespace vocabloss::loss {

/// What a round of statistics has: maxima and softmax sums of the streams, a weighted sum.
struct RoundSums {
  bool maxima, weighted;
  /// A lane's sum is relative to a reference that its columns may exceed; from here on it is summed again. Of 2^a,
  /// where a may be as large as 16, the rounding of a is half a millionth.
  float most_of_lane = 0x1p16f;
};

template <class L>
concept LossAlgebra = std::is_trivially_copyable_v<L> && std::constructible_from<L, typename L::Options> &&
    requires(const L loss, typename L::template State<0> state, typename L::Statistics statistics,
             Columns<typename L::Real, 4> columns, Row<typename L::Real> row, typename L::Real real) {
  { L::streams } -> std::convertible_to<int>;
  { L::teacher_is_logits } -> std::convertible_to<bool>;
  { L::needs_label } -> std::convertible_to<bool>;
  { L::rounds } -> std::convertible_to<int>;
  { L::outputs } -> std::convertible_to<int>;
  { L::template identity<0, 1>() } -> std::same_as<typename L::template State<0>>;
  loss.template raise<0>(state, real, real);
  loss.template accumulate<0>(state, statistics, columns, row.label);
  loss.template merge<0>(state, state);
  loss.template finish<0>(statistics, state);
  { loss.value(statistics, 0) } -> std::same_as<typename L::Real>;
  { loss.gradient(loss.gradient_row(statistics, row), columns, row.label) } -> std::same_as<Pack<typename L::Real, 4>>;
};

/// Whether a loss offers sum_plainly, and plain_gradient.
template <class L, int Round>
concept SumsPlainly = requires(const L loss, PlainSums<typename L::Real> sums, typename L::Statistics statistics,
                               Columns<typename L::Real, 4> columns) {
  loss.template sum_plainly<Round>(sums, statistics, columns);
};
template <class L>
concept HasPlainGradient = requires(const L loss, typename L::Statistics statistics, Row<typename L::Real> row,
                                    Columns<typename L::Real, 4> columns) {
  loss.plain_gradient(loss.gradient_row(statistics, row), columns);
};

/// Adds N columns whose maxima nobody has looked at yet.
template <int Round, class L, class State, int N>
KOKKOS_INLINE_FUNCTION void absorb(const L& loss, State& state, const typename L::Statistics& statistics,
                                   const Columns<typename L::Real, N>& columns, int label) {
  using Real = typename L::Real;
  const Real max_x = largest(columns.x);
  const Real max_t = L::streams == 2 && L::teacher_is_logits ? largest(columns.t) : Real(0);
  loss.template raise<Round>(state, max_x, max_t);
  loss.template accumulate<Round>(state, statistics, columns, label);
}

/// Marks a row whose losses and gradient are to be NaN.
template <class Statistics, class Real>
KOKKOS_INLINE_FUNCTION void poison(Statistics& statistics, Real nan) {
  static_assert(std::is_trivially_copyable_v<Statistics> && sizeof(Statistics) % sizeof(Real) == 0);
  Real* values = reinterpret_cast<Real*>(&statistics);
  for (unsigned i = 0; i < sizeof(Statistics) / sizeof(Real); ++i) values[i] = nan;
}

/// The lane of N columns from `first` on that holds the label, or a number >= N.
KOKKOS_INLINE_FUNCTION unsigned lane_of_label(int label, int first) {
  return static_cast<unsigned>(label) - static_cast<unsigned>(first);
}

}  // namespace vocabloss::loss

#endif
