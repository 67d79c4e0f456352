// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_Z_LOSS_HPP
#define VOCABLOSS_LOSS_Z_LOSS_HPP

/// \file
/// \brief The z-loss lse^2, which keeps the softmax normaliser near 1: one stream, no label.
///
/// dloss/dx_j = 2 s lse p_j. Source: Chowdhery et al., "PaLM", 2022, section 5 (there scaled by 1e-4; here by the
/// caller's row weight or upstream gradient).

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>
#include <vocabloss/loss/options.hpp>

namespace vocabloss::loss {

template <class RealType>
struct ZLoss {
  using Real = RealType;
  using Options = LossOptions;
  static constexpr int streams = 1;
  static constexpr bool teacher_is_logits = false;
  static constexpr bool needs_label = false;
  static constexpr int rounds = 1;
  static constexpr int outputs = 1;

  Real scale;
  Real scale_log2;

  explicit ZLoss(const Options& options)
      : scale(Real(options.logit_scale / options.temperature)),
        scale_log2(Real(options.logit_scale / options.temperature * log2_of_e)) {}

  template <int Round, int Lanes = 1>
  struct State {
    SoftmaxSum<Real, Lanes> x;
  };
  struct Statistics {
    Real maximum, excess;  ///< `excess`: the softmax sum less 1
  };
  struct GradientRow {
    Real maximum, factor;
    Real plain_x, plain_factor;
  };

  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round, Lanes> identity() {
    return {SoftmaxSum<Real, Lanes>::identity()};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION void raise(State<Round, Lanes>& state, Real max_x, Real) const {
    state.x.raise(max_x, scale_log2);
  }
  template <int Round, int Lanes, int N>
  KOKKOS_INLINE_FUNCTION void accumulate(State<Round, Lanes>& state, const Statistics&, const Columns<Real, N>& columns,
                                         int) const {
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real a = state.x.relative(columns.x.lane[j], scale_log2);
      state.x.add(j % Lanes, a, exp2_of(a));
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
    return sums.x.sum >= Real(0.5) && RelativeLine<Real>(sums.x.maximum, scale_log2).is_usable(low);
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> from_plain(const PlainSums<Real>& sums, const Statistics&) const {
    const RelativeLine<Real> line(sums.x.maximum, scale_log2);
    State<Round> state = identity<Round, 1>();
    state.x = softmax_sum_of(sums.x, line.back());
    return state;
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round> collapse(const State<Round, Lanes>& state) {
    return {state.x.collapse()};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION State<Round, Lanes> add(State<Round, Lanes> a, const State<Round, Lanes>& b) const {
    a.x.add(b.x);
    return a;
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> merge(const State<Round>& a, const State<Round>& b) const {
    return {loss::merge(a.x, b.x, scale_log2)};
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION void finish(Statistics& statistics, const State<Round>& state) const {
    statistics = {state.x.maximum, state.x.excess()};
  }
  KOKKOS_INLINE_FUNCTION Real log_sum_exp(const Statistics& statistics) const {
    return statistics.maximum * scale + log1p_exactly(statistics.excess);
  }
  KOKKOS_INLINE_FUNCTION Real value(const Statistics& statistics, int) const {
    const Real lse = log_sum_exp(statistics);
    return lse * lse;
  }
  KOKKOS_INLINE_FUNCTION GradientRow gradient_row(const Statistics& statistics, const Row<Real>& row) const {
    const Real factor =
        quotient(row.upstream[0] * Real(2) * scale * log_sum_exp(statistics), Real(1) + statistics.excess);
    const RelativeLine<Real> line(statistics.maximum, scale_log2);
    return {statistics.maximum, factor, line.offset, line.is_usable() ? factor * line.back() : not_a_number<Real>()};
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
  KOKKOS_INLINE_FUNCTION Pack<Real, N> gradient(const GradientRow& row, const Columns<Real, N>& columns, int) const {
    Pack<Real, N> result;
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      result.lane[j] = exp2_of((columns.x.lane[j] - row.maximum) * scale_log2) * row.factor;
    }
    return result;
  }
};

}  // namespace vocabloss::loss

#endif
