// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_TWO_SOFTMAXES_HPP
#define VOCABLOSS_LOSS_TWO_SOFTMAXES_HPP

/// \file
/// \brief What every loss between two softmaxes shares: the scales, the two streams, and one weighted sum.
///
/// The state of reverse KL, forward KL and soft cross-entropy is the softmax sum of each stream and one further sum w
/// of terms weight * factor, kept relative to the maxima. A loss says in its `Term` what a column adds to w, and how w
/// shifts when the maxima move; all else is here.

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>
#include <vocabloss/loss/options.hpp>

namespace vocabloss::loss {

/// Scales of the two streams: a temperature divides both.
template <class Real>
struct TwoScales {
  Real x, x_log2, t_log2;

  explicit TwoScales(const LossOptions& options)
      : x(Real(options.logit_scale / options.temperature)),
        x_log2(Real(options.logit_scale / options.temperature * log2_of_e)),
        t_log2(Real(options.teacher_scale / options.temperature * log2_of_e)) {}
};

template <class Real, int Lanes>
struct TwoSoftmaxState {
  SoftmaxSum<Real, Lanes> x;
  SoftmaxSum<Real, Lanes> t;
  WeightedSum<Real, Lanes> weighted_sum;
};

/// `Term` is reverse KL's, forward KL's or soft cross-entropy's: with a and b the columns of student and teacher
/// relative to their maxima, in units of log 2, and ea = 2^a, eb = 2^b,
///   weight_is_student   whether w's weights are ea (else eb)
///   factor(a, b)        what the weight multiplies
///   shift(dx, dt)       what the factor gains when the maxima move by dx and dt
template <class RealType, class Term>
struct TwoSoftmaxLoss {
  using Real = RealType;
  using Options = LossOptions;
  static constexpr int streams = 2;
  static constexpr bool teacher_is_logits = true;
  static constexpr bool needs_label = false;
  static constexpr int rounds = 1;
  static constexpr int outputs = 1;

  TwoScales<Real> scale;

  explicit TwoSoftmaxLoss(const Options& options) : scale(options) {}

  template <int Round, int Lanes = 1>
  struct State : TwoSoftmaxState<Real, Lanes> {};

  /// `excess`: a softmax sum less 1. The mean of the factor, w over its weights' sum, in two parts: its value at the
  /// weight's maximum, and the rest, which keeps its digits where that one column is almost all of the weight.
  struct Statistics {
    Real max_x, excess_x, max_t, excess_t, mean_at_maximum, mean_rest;

    KOKKOS_INLINE_FUNCTION Real mean_log2() const { return mean_at_maximum + mean_rest; }
  };

  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round, Lanes> identity() {
    return {
        {SoftmaxSum<Real, Lanes>::identity(), SoftmaxSum<Real, Lanes>::identity(), WeightedSum<Real, Lanes>::zero()}};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION void raise(State<Round, Lanes>& state, Real max_x, Real max_t) const {
    const MaximumMove<Real> move_x = state.x.move_to(max_x, scale.x_log2);
    const MaximumMove<Real> move_t = state.t.move_to(max_t, scale.t_log2);
    state.weighted_sum.move(Term::weight_is_student ? state.x : state.t, Term::weight_is_student ? move_x : move_t,
                            Term::shift(move_x.distance, move_t.distance));
    state.x.apply(move_x, max_x);
    state.t.apply(move_t, max_t);
  }
  template <int Round, int Lanes, int N>
  KOKKOS_INLINE_FUNCTION void accumulate(State<Round, Lanes>& state, const Statistics&, const Columns<Real, N>& columns,
                                         int) const {
    Pack<Real, N> relative, weight, factor;
    LaneSum<Real, Lanes> plain = LaneSum<Real, Lanes>::zero();
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real a = state.x.relative(columns.x.lane[j], scale.x_log2);
      const Real b = state.t.relative(columns.t.lane[j], scale.t_log2);
      const Real ea = exp2_of(a);
      const Real eb = exp2_of(b);
      state.x.add(j % Lanes, a, ea);
      if constexpr (Term::weight_is_student) {
        plain.lane[j % Lanes] += eb;
      } else {
        state.t.add(j % Lanes, b, eb);
      }
      relative.lane[j] = Term::weight_is_student ? a : b;
      weight.lane[j] = Term::weight_is_student ? ea : eb;
      factor.lane[j] = Term::factor(a, b);
    }
    if constexpr (Term::weight_is_student) state.t.add_plainly(plain);
    state.weighted_sum.add(relative, weight, factor);
  }
  template <int Round>
  static constexpr RoundSums round_sums{.maxima = true, .weighted = true};

  template <int Round>
  KOKKOS_INLINE_FUNCTION void raise_plainly(PlainSums<Real>& sums, Real max_x, Real max_t) const {
    const Real weights = Term::weight_is_student ? sums.x.sum : sums.t.sum;
    const auto move_x = sums.x.raise(max_x, scale.x_log2);
    const auto move_t = sums.t.raise(max_t, scale.t_log2);
    sums.weighted = multiply_add(weights, Term::shift(move_x.distance, move_t.distance), sums.weighted) *
                    (Term::weight_is_student ? move_x.factor : move_t.factor);
  }
  template <int Round, int N>
  KOKKOS_INLINE_FUNCTION void sum_plainly(PlainSums<Real>& sums, const Statistics&,
                                          const Columns<Real, N>& columns) const {
    for (int j = 0; j < N; ++j) {
      const Real a = sums.x.at(columns.x.lane[j], scale.x_log2);
      const Real b = sums.t.at(columns.t.lane[j], scale.t_log2);
      const Real ea = exp2_of(a);
      const Real eb = exp2_of(b);
      sums.x.sum += ea;
      sums.t.sum += eb;
      sums.weighted = multiply_add(Term::weight_is_student ? ea : eb, Term::factor(a, b), sums.weighted);
    }
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION bool is_good(const PlainSums<Real>& sums, const Statistics&, Real low) const {
    const RelativeLine<Real> line_x(sums.x.maximum, scale.x_log2), line_t(sums.t.maximum, scale.t_log2);
    // The gradient is a difference of the two softmaxes, or of their logarithms.
    const int keeps_x = sums.x.keeps_digits_of_difference();
    const int keeps_t = Term::weight_is_student ? sums.t.sum >= Real(0.5) : sums.t.keeps_digits_of_difference();
    const int is_finite = sums.weighted - sums.weighted == Real(0);
    return bool(is_finite & keeps_x & keeps_t & int(line_x.is_usable(low)) & int(line_t.is_usable(low)));  // no branch
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> from_plain(const PlainSums<Real>& sums, const Statistics&) const {
    const RelativeLine<Real> line_x(sums.x.maximum, scale.x_log2), line_t(sums.t.maximum, scale.t_log2);
    const Real weights = Term::weight_is_student ? sums.x.sum : sums.t.sum;
    const Real shift = Term::shift(line_x.residual, line_t.residual);
    State<Round> state = identity<Round, 1>();
    state.x = softmax_sum_of(sums.x, line_x.back());
    state.t = softmax_sum_of(sums.t, line_t.back());
    state.weighted_sum.below.lane[0] =
        (sums.weighted - weights * shift) * (Term::weight_is_student ? line_x.back() : line_t.back());
    return state;
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round> collapse(const State<Round, Lanes>& state) {
    return {{state.x.collapse(), state.t.collapse(), state.weighted_sum.collapse()}};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION State<Round, Lanes> add(State<Round, Lanes> a, const State<Round, Lanes>& b) const {
    a.x.add(b.x);
    a.t.add(b.t);
    a.weighted_sum.add(b.weighted_sum);
    return a;
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> merge(State<Round> a, State<Round> b) const {
    const Real max_x = larger(a.x.maximum, b.x.maximum);
    const Real max_t = larger(a.t.maximum, b.t.maximum);
    raise(a, max_x, max_t);
    raise(b, max_x, max_t);
    return add<Round>(a, b);
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION void finish(Statistics& statistics, const State<Round>& state) const {
    if (!state.x.exists() || !state.t.exists()) return poison(statistics, not_a_number<Real>());
    const SoftmaxSum<Real, 1>& weights = Term::weight_is_student ? state.x : state.t;
    const Real sum = Real(1) + weights.excess();
    const Real at = state.weighted_sum.at.value();
    const Real below = state.weighted_sum.below.value();
    Real at_maximum = quotient(at + below, sum), rest = Real(0);
    // Unless that is infinite, or nothing was kept apart. (Rows wait for this, and 0 / 0 takes a GPU long.)
    if (at_maximum - at_maximum == Real(0) && weights.at.value() != Real(0)) {
      at_maximum = at / weights.at.value();
      rest = (below - at_maximum * weights.below.value()) / sum;
    }
    statistics = {state.x.maximum, state.x.excess(), state.t.maximum, state.t.excess(), at_maximum, rest};
  }
};

}  // namespace vocabloss::loss

#endif
