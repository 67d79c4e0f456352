// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_LABEL_CROSS_ENTROPY_HPP
#define VOCABLOSS_LOSS_LABEL_CROSS_ENTROPY_HPP

/// \file
/// \brief Cross-entropy of a label, and the log-probability of a label: one stream.
///
/// With y the label: cross_entropy = lse - s x_y, dloss/dx_j = s (p_j - [j = y]); log_prob is its negative.
/// The label's logit is one more sum of the state, present on the shard that owns the column and 0 elsewhere, so that a
/// split vocabulary needs no special case. The loss is formed relative to the maximum: log sum - s (x_y - max) keeps
/// its digits at any offset of the logits.

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>
#include <vocabloss/loss/options.hpp>

namespace vocabloss::loss {

/// `sign` 1: cross-entropy; -1: log-probability.
template <class RealType, int sign>
struct LabelLoss {
  using Real = RealType;
  using Options = LossOptions;
  static constexpr int streams = 1;
  static constexpr bool teacher_is_logits = false;
  static constexpr bool needs_label = true;
  static constexpr int rounds = 1;
  static constexpr int outputs = 1;

  Real scale;       ///< s / T
  Real scale_log2;  ///< in units of log 2

  explicit LabelLoss(const Options& options)
      : scale(Real(options.logit_scale / options.temperature)),
        scale_log2(Real(options.logit_scale / options.temperature * log2_of_e)) {}

  template <int Round, int Lanes = 1>
  struct State {
    SoftmaxSum<Real, Lanes> x;
    Real label_logit;  ///< as stored, unscaled; 0 where the label is elsewhere
  };
  struct Statistics {
    Real maximum, excess, label_logit;  ///< `excess`: the softmax sum less 1
  };
  struct GradientRow {
    Real maximum, factor, excess;
    Real plain_x, plain_factor;
  };

  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round, Lanes> identity() {
    return {SoftmaxSum<Real, Lanes>::identity(), Real(0)};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION void raise(State<Round, Lanes>& state, Real max_x, Real) const {
    state.x.raise(max_x, scale_log2);
  }
  template <int Round, int Lanes, int N>
  KOKKOS_INLINE_FUNCTION void accumulate(State<Round, Lanes>& state, const Statistics&, const Columns<Real, N>& columns,
                                         int label) const {
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real a = state.x.relative(columns.x.lane[j], scale_log2);
      state.x.add(j % Lanes, a, exp2_of(a));
    }
    const unsigned lane = lane_of_label(label, columns.first);
    if (lane < unsigned(N)) {
      for (int j = 0; j < N; ++j) {
        const Real x = columns.x.lane[j];  // read for every j: a conditional read would index registers at run time
        state.label_logit = unsigned(j) == lane ? x : state.label_logit;
      }
    }
  }
  template <int Round>
  static constexpr RoundSums round_sums{.maxima = true, .weighted = false};

  template <int Round>
  KOKKOS_INLINE_FUNCTION void raise_plainly(PlainSums<Real>& sums, Real max_x, Real) const {
    sums.x.raise(max_x, scale_log2);
  }
  template <int Round, int N>
  KOKKOS_INLINE_FUNCTION void sum_plainly(PlainSums<Real>& sums, const Statistics&,
                                          const Columns<Real, N>& columns) const {
    sums.x.add(columns.x, scale_log2);
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION bool is_good(const PlainSums<Real>& sums, const Statistics&, Real low) const {
    return sums.x.keeps_digits() && RelativeLine<Real>(sums.x.maximum, scale_log2).is_usable(low);
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> from_plain(const PlainSums<Real>& sums, const Statistics&) const {
    const RelativeLine<Real> line(sums.x.maximum, scale_log2);
    State<Round> state = identity<Round, 1>();
    state.x = softmax_sum_of(sums.x, line.back());
    return state;
  }
  template <class AnyState>
  KOKKOS_INLINE_FUNCTION void note_label(AnyState& state, Real x) const {
    state.label_logit = x;
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round> collapse(const State<Round, Lanes>& state) {
    return {state.x.collapse(), state.label_logit};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION State<Round, Lanes> add(State<Round, Lanes> a, const State<Round, Lanes>& b) const {
    a.x.add(b.x);
    a.label_logit += b.label_logit;
    return a;
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> merge(const State<Round>& a, const State<Round>& b) const {
    return {loss::merge(a.x, b.x, scale_log2), a.label_logit + b.label_logit};
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION void finish(Statistics& statistics, const State<Round>& state) const {
    statistics = {state.x.maximum, state.x.excess(), state.label_logit};
  }
  KOKKOS_INLINE_FUNCTION Real value(const Statistics& statistics, int) const {
    const Real cross_entropy = log1p_exactly(statistics.excess) - (statistics.label_logit - statistics.maximum) * scale;
    return Real(sign) * cross_entropy;
  }
  KOKKOS_INLINE_FUNCTION GradientRow gradient_row(const Statistics& statistics, const Row<Real>& row) const {
    const Real upstream = Real(sign) * row.upstream[0] * scale;
    const Real factor = quotient(upstream, Real(1) + statistics.excess);
    const RelativeLine<Real> line(statistics.maximum, scale_log2);
    return {statistics.maximum, factor, statistics.excess, line.offset,
            line.is_usable() ? factor * line.back() : not_a_number<Real>()};
  }

  static constexpr bool plain_gradient_may_be_nan = false;
  KOKKOS_INLINE_FUNCTION bool has_plain_gradient(const GradientRow& row) const {
    return row.plain_factor == row.plain_factor;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> plain_gradient(const GradientRow& row, const Columns<Real, N>& columns) const {
    return plain_exponentials(columns.x, scale_log2, row.plain_x, row.plain_factor);
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> gradient(const GradientRow& row, const Columns<Real, N>& columns,
                                                int label) const {
    Pack<Real, N> result;
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      result.lane[j] = exp2_of((columns.x.lane[j] - row.maximum) * scale_log2) * row.factor;
    }
    const unsigned lane = lane_of_label(label, columns.first);
    if (lane < unsigned(N)) {
      // p_y - 1 = (e - sum) / sum, without forming the sum: a label that is almost certain has e = 1 and a tiny excess.
      for (int j = 0; j < N; ++j) {
        const Real e = exp2_of((columns.x.lane[j] - row.maximum) * scale_log2);
        const Real at_label = ((e - Real(1)) - row.excess) * row.factor;
        result.lane[j] = unsigned(j) == lane ? at_label : result.lane[j];
      }
    }
    return result;
  }
};

template <class Real>
using CrossEntropy = LabelLoss<Real, 1>;
template <class Real>
using LogProb = LabelLoss<Real, -1>;

}  // namespace vocabloss::loss

#endif
