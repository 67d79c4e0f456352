// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_ENTROPY_HPP
#define VOCABLOSS_LOSS_ENTROPY_HPP

/// \file
/// \brief The entropy of the softmax, alone or together with the label's log-probability: one stream.
///
/// H = -sum p log p, dH/dx_j = -s p_j (log p_j + H); log_prob = s x_y - lse, with s ([j = y] - p_j).
/// State beside the softmax sum: w = sum 2^a a, so that H = log sum - w / sum; p_j = 0 contributes 0.

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>
#include <vocabloss/loss/options.hpp>

namespace vocabloss::loss {

/// `with_label`: two outputs a row, the label's log-probability first and the entropy second, each with an upstream
/// gradient of its own, from one pass over the logits.
template <class RealType, bool with_label>
struct EntropyLoss {
  using Real = RealType;
  using Options = LossOptions;
  static constexpr int streams = 1;
  static constexpr bool teacher_is_logits = false;
  static constexpr bool needs_label = with_label;
  static constexpr int rounds = 1;
  static constexpr int outputs = with_label ? 2 : 1;
  static constexpr int entropy_output = outputs - 1;

  Real scale;
  Real scale_log2;

  explicit EntropyLoss(const Options& options)
      : scale(Real(options.logit_scale / options.temperature)),
        scale_log2(Real(options.logit_scale / options.temperature * log2_of_e)) {}

  template <int Round, int Lanes = 1>
  struct State {
    SoftmaxSum<Real, Lanes> x;
    LaneSum<Real, Lanes> weighted_sum;
    Real label_logit;
  };
  struct Statistics {
    Real maximum, excess, mean_log2, label_logit;  ///< `excess`: the sum less 1; `mean_log2`: of a, weighted with p
  };
  struct GradientRow {
    Real maximum, label_factor, entropy_factor, mean_log2, excess;
    Real plain_x, plain_factor, plain_rest;
  };

  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round, Lanes> identity() {
    return {SoftmaxSum<Real, Lanes>::identity(), LaneSum<Real, Lanes>::zero(), Real(0)};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION void raise(State<Round, Lanes>& state, Real max_x, Real) const {
    const MaximumMove<Real> move = state.x.move_to(max_x, scale_log2);
    VOCABLOSS_VECTOR_LOOP
    for (int l = 0; l < Lanes; ++l) {
      const Real shift = weighted(state.x.at.lane[l] + state.x.below.lane[l], move.distance);
      state.weighted_sum.lane[l] = weighted(move.factor, state.weighted_sum.lane[l] + shift);
    }
    state.x.apply(move, max_x);
  }
  template <int Round, int Lanes, int N>
  KOKKOS_INLINE_FUNCTION void accumulate(State<Round, Lanes>& state, const Statistics&, const Columns<Real, N>& columns,
                                         int label) const {
    Pack<Real, N> weight, factor;
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      factor.lane[j] = state.x.relative(columns.x.lane[j], scale_log2);
      weight.lane[j] = exp2_of(factor.lane[j]);
      state.x.add(j % Lanes, factor.lane[j], weight.lane[j]);
    }
    add_weighted(state.weighted_sum, weight, factor);
    if constexpr (with_label) {
      const unsigned lane = lane_of_label(label, columns.first);
      if (lane < unsigned(N)) {
        for (int j = 0; j < N; ++j) {
          const Real x = columns.x.lane[j];  // read for every j: a conditional read would index registers at run time
          state.label_logit = unsigned(j) == lane ? x : state.label_logit;
        }
      }
    }
  }
  /// An entropy is also the difference between a logarithm and a mean that are both about a.
  template <int Round>
  static constexpr RoundSums round_sums{.maxima = true, .weighted = true, .most_of_lane = 0x1p8f};

  template <int Round>
  KOKKOS_INLINE_FUNCTION void raise_plainly(PlainSums<Real>& sums, Real max_x, Real) const {
    const Real weights = sums.x.sum;
    const auto move = sums.x.raise(max_x, scale_log2);
    sums.weighted = multiply_add(weights, move.distance, sums.weighted) * move.factor;
  }
  template <int Round, int N>
  KOKKOS_INLINE_FUNCTION void sum_plainly(PlainSums<Real>& sums, const Statistics&,
                                          const Columns<Real, N>& columns) const {
    for (int j = 0; j < N; ++j) {
      const Real a = sums.x.at(columns.x.lane[j], scale_log2);
      const Real e = exp2_of(a);
      sums.x.sum += e;
      sums.weighted = multiply_add(e, a, sums.weighted);
    }
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION bool is_good(const PlainSums<Real>& sums, const Statistics&, Real low) const {
    return sums.weighted - sums.weighted == Real(0) && sums.x.keeps_digits() &&
           RelativeLine<Real>(sums.x.maximum, scale_log2).is_usable(low);
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> from_plain(const PlainSums<Real>& sums, const Statistics&) const {
    const RelativeLine<Real> line(sums.x.maximum, scale_log2);
    State<Round> state = identity<Round, 1>();
    state.x = softmax_sum_of(sums.x, line.back());
    state.weighted_sum.lane[0] = (sums.weighted - sums.x.sum * line.residual) * line.back();
    return state;
  }
  template <class AnyState>
  KOKKOS_INLINE_FUNCTION void note_label(AnyState& state, Real x) const {
    state.label_logit = x;
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round> collapse(const State<Round, Lanes>& state) {
    return {state.x.collapse(), state.weighted_sum.total(), state.label_logit};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION State<Round, Lanes> add(State<Round, Lanes> a, const State<Round, Lanes>& b) const {
    a.x.add(b.x);
    a.weighted_sum.add(b.weighted_sum);
    a.label_logit += b.label_logit;
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
    const Real excess = state.x.excess();
    statistics = {state.x.maximum, excess, quotient(state.weighted_sum.value(), Real(1) + excess), state.label_logit};
  }
  KOKKOS_INLINE_FUNCTION Real value(const Statistics& statistics, int output) const {
    const Real log_sum = log1p_exactly(statistics.excess);
    if (output == entropy_output) return log_sum - statistics.mean_log2 * Real(log_of_2);
    return (statistics.label_logit - statistics.maximum) * scale - log_sum;
  }
  KOKKOS_INLINE_FUNCTION GradientRow gradient_row(const Statistics& statistics, const Row<Real>& row) const {
    const Real of_label = with_label ? row.upstream[0] * scale : Real(0);
    const Real of_entropy = row.upstream[entropy_output] * scale * Real(log_of_2);
    const Real sum = Real(1) + statistics.excess;
    const RelativeLine<Real> line(statistics.maximum, scale_log2);
    const Real mean = statistics.mean_log2 + line.residual;
    return {statistics.maximum,
            quotient(-of_label, sum),
            quotient(-of_entropy, sum),
            statistics.mean_log2,
            statistics.excess,
            line.offset,
            line.is_usable() ? quotient(-of_entropy, sum) * line.back() : not_a_number<Real>(),
            quotient(of_entropy * mean - of_label, sum) * line.back()};
  }

  /// Minus infinity: no probability, and an infinite logarithm.
  static constexpr bool plain_gradient_may_be_nan = true;
  KOKKOS_INLINE_FUNCTION bool has_plain_gradient(const GradientRow& row) const {
    return row.plain_factor == row.plain_factor;
  }
  /// In a row that one column decides, its logarithm and the mean cancel.
  KOKKOS_INLINE_FUNCTION bool cares_for_maxima(const GradientRow& row) const {
    return row.excess < Real(PlainStream<Real>::least_plain_sum - 1);
  }
  KOKKOS_INLINE_FUNCTION bool is_at_maximum(const GradientRow& row, Real max_x, Real) const {
    return max_x >= row.maximum;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> plain_gradient(const GradientRow& row, const Columns<Real, N>& columns) const {
    Pack<Real, N> result;
    for (int j = 0; j < N; ++j) {
      const Real a = fused_multiply_add(columns.x.lane[j], scale_log2, row.plain_x);
      result.lane[j] = exp2_of(a) * fused_multiply_add(a, row.plain_factor, row.plain_rest);
    }
    return result;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> gradient(const GradientRow& row, const Columns<Real, N>& columns,
                                                int label) const {
    Pack<Real, N> result;
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real a = (columns.x.lane[j] - row.maximum) * scale_log2;
      const Real e = exp2_of(a);
      result.lane[j] = weighted(e, a - row.mean_log2) * row.entropy_factor;  // log p + H: the log of the sum cancels
      if constexpr (with_label) result.lane[j] += e * row.label_factor;
    }
    if constexpr (with_label) {
      const unsigned lane = lane_of_label(label, columns.first);
      if (lane < unsigned(N)) {
        // As in label_cross_entropy.hpp: 1 - p_y without forming the sum.
        for (int j = 0; j < N; ++j) {
          const Real a = (columns.x.lane[j] - row.maximum) * scale_log2;
          const Real e = exp2_of(a);
          const Real at_label =
              weighted(e, a - row.mean_log2) * row.entropy_factor + ((e - Real(1)) - row.excess) * row.label_factor;
          result.lane[j] = unsigned(j) == lane ? at_label : result.lane[j];
        }
      }
    }
    return result;
  }
};

template <class Real>
using Entropy = EntropyLoss<Real, false>;
template <class Real>
using LogProbEntropy = EntropyLoss<Real, true>;

}  // namespace vocabloss::loss

#endif
