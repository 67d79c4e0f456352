// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_SOFT_CROSS_ENTROPY_PROBABILITIES_HPP
#define VOCABLOSS_LOSS_SOFT_CROSS_ENTROPY_PROBABILITIES_HPP

/// \file
/// \brief Soft cross-entropy against given target probabilities q, which need not sum to 1: two streams.
///
/// loss = sum(q) lse - sum q_j s x_j; dloss/dx_j = s (sum(q) p_j - q_j). In the state: sum(q), and w = sum q_j a_j
/// relative to the student's maximum, so that loss = sum(q) log sum_x - w. q_j = 0 contributes 0 whatever x_j is.

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>
#include <vocabloss/loss/options.hpp>

namespace vocabloss::loss {

template <class RealType>
struct SoftCrossEntropyProbabilities {
  using Real = RealType;
  using Options = LossOptions;
  static constexpr int streams = 2;
  static constexpr bool teacher_is_logits = false;
  static constexpr bool needs_label = false;
  static constexpr int rounds = 1;
  static constexpr int outputs = 1;

  Real scale;
  Real scale_log2;

  explicit SoftCrossEntropyProbabilities(const Options& options)
      : scale(Real(options.logit_scale / options.temperature)),
        scale_log2(Real(options.logit_scale / options.temperature * log2_of_e)) {}

  template <int Round, int Lanes = 1>
  struct State {
    SoftmaxSum<Real, Lanes> x;
    LaneSum<Real, Lanes> target_sum;
    LaneSum<Real, Lanes> weighted_sum;
  };
  struct Statistics {
    Real maximum, excess, target_sum, weighted_sum;  ///< `excess`: the softmax sum less 1
  };
  struct GradientRow {
    Real maximum, target_sum, excess, factor;
    Real plain_x, plain_factor_x, plain_factor_t;
  };

  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round, Lanes> identity() {
    return {SoftmaxSum<Real, Lanes>::identity(), LaneSum<Real, Lanes>::zero(), LaneSum<Real, Lanes>::zero()};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION void raise(State<Round, Lanes>& state, Real max_x, Real) const {
    const MaximumMove<Real> move = state.x.move_to(max_x, scale_log2);
    VOCABLOSS_VECTOR_LOOP
    for (int l = 0; l < Lanes; ++l) {
      state.weighted_sum.lane[l] += weighted(state.target_sum.lane[l], move.distance);
    }
    state.x.apply(move, max_x);
  }
  template <int Round, int Lanes, int N>
  KOKKOS_INLINE_FUNCTION void accumulate(State<Round, Lanes>& state, const Statistics&, const Columns<Real, N>& columns,
                                         int) const {
    Pack<Real, N> factor;
    // On their own first: one by one, small probabilities would drown in a large one.
    LaneSum<Real, Lanes> targets = LaneSum<Real, Lanes>::zero();
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      factor.lane[j] = state.x.relative(columns.x.lane[j], scale_log2);
      state.x.add(j % Lanes, factor.lane[j], exp2_of(factor.lane[j]));
      targets.lane[j % Lanes] += columns.t.lane[j];
    }
    state.target_sum.add(targets);
    add_weighted(state.weighted_sum, columns.t, factor);
  }
  template <int Round>
  static constexpr RoundSums round_sums{.maxima = true, .weighted = true};

  template <int Round>
  KOKKOS_INLINE_FUNCTION void raise_plainly(PlainSums<Real>& sums, Real max_x, Real) const {
    const auto move = sums.x.raise(max_x, scale_log2);
    sums.weighted = multiply_add(sums.t.sum, move.distance, sums.weighted);
  }
  template <int Round, int N>
  KOKKOS_INLINE_FUNCTION void sum_plainly(PlainSums<Real>& sums, const Statistics&,
                                          const Columns<Real, N>& columns) const {
    for (int j = 0; j < N; ++j) {
      const Real a = sums.x.at(columns.x.lane[j], scale_log2);
      sums.x.sum += exp2_of(a);
      sums.t.sum += columns.t.lane[j];
      sums.weighted = multiply_add(columns.t.lane[j], a, sums.weighted);
    }
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION bool is_good(const PlainSums<Real>& sums, const Statistics&, Real low) const {
    return sums.weighted - sums.weighted == Real(0) && sums.x.keeps_digits_of_difference() &&
           RelativeLine<Real>(sums.x.maximum, scale_log2).is_usable(low);
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> from_plain(const PlainSums<Real>& sums, const Statistics&) const {
    const RelativeLine<Real> line(sums.x.maximum, scale_log2);
    State<Round> state = identity<Round, 1>();
    state.x = softmax_sum_of(sums.x, line.back());
    state.target_sum.lane[0] = sums.t.sum;
    state.weighted_sum.lane[0] = sums.weighted - sums.t.sum * line.residual;
    return state;
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round> collapse(const State<Round, Lanes>& state) {
    return {state.x.collapse(), state.target_sum.total(), state.weighted_sum.total()};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION State<Round, Lanes> add(State<Round, Lanes> a, const State<Round, Lanes>& b) const {
    a.x.add(b.x);
    a.target_sum.add(b.target_sum);
    a.weighted_sum.add(b.weighted_sum);
    return a;
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> merge(State<Round> a, State<Round> b) const {
    const Real maximum = larger(a.x.maximum, b.x.maximum);
    raise(a, maximum, Real(0));
    raise(b, maximum, Real(0));
    return add<Round>(a, b);
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION void finish(Statistics& statistics, const State<Round>& state) const {
    const Real target_sum = state.target_sum.value();
    const bool finite_targets = target_sum > Real(-1e30) && target_sum < Real(1e30);
    if (!state.x.exists() || !finite_targets) return poison(statistics, not_a_number<Real>());
    statistics = {state.x.maximum, state.x.excess(), target_sum, state.weighted_sum.value()};
  }
  KOKKOS_INLINE_FUNCTION Real value(const Statistics& statistics, int) const {
    return statistics.target_sum * log1p_exactly(statistics.excess) - statistics.weighted_sum * Real(log_of_2);
  }
  KOKKOS_INLINE_FUNCTION GradientRow gradient_row(const Statistics& statistics, const Row<Real>& row) const {
    const Real factor = quotient(row.upstream[0] * scale, Real(1) + statistics.excess);
    const RelativeLine<Real> line(statistics.maximum, scale_log2);
    return {statistics.maximum,
            statistics.target_sum,
            statistics.excess,
            factor,
            line.offset,
            line.is_usable() ? factor * statistics.target_sum * line.back() : not_a_number<Real>(),
            row.upstream[0] * scale};
  }

  static constexpr bool plain_gradient_may_be_nan = false;
  KOKKOS_INLINE_FUNCTION bool has_plain_gradient(const GradientRow& row) const {
    return row.plain_factor_x == row.plain_factor_x;
  }
  /// At the maximum, p and q may both be almost 1.
  KOKKOS_INLINE_FUNCTION bool cares_for_maxima(const GradientRow& row) const {
    return row.excess < Real(PlainStream<Real>::least_plain_sum_of_two - 1);
  }
  KOKKOS_INLINE_FUNCTION bool is_at_maximum(const GradientRow& row, Real max_x, Real) const {
    return max_x == row.maximum;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> plain_gradient(const GradientRow& row, const Columns<Real, N>& columns) const {
    Pack<Real, N> result;
    for (int j = 0; j < N; ++j) {
      const Real e = exp2_of(fused_multiply_add(columns.x.lane[j], scale_log2, row.plain_x));
      result.lane[j] = fused_multiply_add(e, row.plain_factor_x, -(columns.t.lane[j] * row.plain_factor_t));
    }
    return result;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> gradient(const GradientRow& row, const Columns<Real, N>& columns, int) const {
    Pack<Real, N> result;
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real e = exp2_of((columns.x.lane[j] - row.maximum) * scale_log2);
      const Real q = columns.t.lane[j];
      result.lane[j] = ((e * row.target_sum - q) - q * row.excess) * row.factor;  // (sum(q) e - q sum) / sum
    }
    return result;
  }
};

}  // namespace vocabloss::loss

#endif
