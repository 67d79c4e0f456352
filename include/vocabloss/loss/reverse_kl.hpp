// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_REVERSE_KL_HPP
#define VOCABLOSS_LOSS_REVERSE_KL_HPP

/// \file
/// \brief Reverse Kullback-Leibler divergence KL(p, q) of the student p from the teacher q: two streams.
///
/// loss = sum p_j d_j with d_j = log p_j - log q_j; dloss/dx_j = s p_j (d_j - loss).
/// In the state: w = sum 2^a (a - b), so that loss = w / sum_x - log sum_x + log sum_t.
/// p_j > 0 where q_j = 0: loss +inf and the whole gradient row NaN.

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>
#include <vocabloss/loss/options.hpp>
#include <vocabloss/loss/two_softmaxes.hpp>

namespace vocabloss::loss {

struct ReverseKlTerm {
  static constexpr bool weight_is_student = true;
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real factor(Real a, Real b) {
    return a - b;
  }
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real shift(Real dx, Real dt) {
    return dx - dt;
  }
};

template <class RealType>
struct ReverseKl : TwoSoftmaxLoss<RealType, ReverseKlTerm> {
  using Base = TwoSoftmaxLoss<RealType, ReverseKlTerm>;
  using Real = RealType;
  using Statistics = typename Base::Statistics;
  using Base::Base;
  using Base::scale;

  struct GradientRow {
    Real max_x, max_t, factor, mean_at_maximum, mean_rest;
    Real plain_x, plain_t, plain_factor, plain_rest;  ///< see plain_gradient
  };

  KOKKOS_INLINE_FUNCTION Real value(const Statistics& statistics, int) const {
    return statistics.mean_log2() * Real(log_of_2) - log_of_ratio(statistics.excess_x, statistics.excess_t);
  }
  KOKKOS_INLINE_FUNCTION GradientRow gradient_row(const Statistics& statistics, const Row<Real>& row) const {
    // d_j - loss: the logarithms of the two sums cancel, which leaves (a - b) - w / sum_x.
    const bool infinite = !(statistics.mean_log2() <= -empty_maximum<Real>());
    const Real factor = quotient(row.upstream[0] * scale.x * Real(log_of_2), Real(1) + statistics.excess_x);
    const RelativeLine<Real> line_x(statistics.max_x, scale.x_log2), line_t(statistics.max_t, scale.t_log2);
    // The mean at the maximum joins the teacher's offset. What that rounds off joins the rest, so that the terms of a
    // column that is almost all of p still cancel.
    const ExactSum<Real> offset_t(line_t.offset, statistics.mean_at_maximum);
    const Real plain_factor = factor * line_x.back();
    const Real rest = statistics.mean_rest + ((line_x.residual - line_t.residual) + offset_t.lost);
    const bool usable = line_x.is_usable() && line_t.is_usable() && !infinite;
    return {statistics.max_x,
            statistics.max_t,
            infinite ? not_a_number<Real>() : factor,
            statistics.mean_at_maximum,
            statistics.mean_rest,
            line_x.offset,
            offset_t.sum,
            usable ? plain_factor : not_a_number<Real>(),
            -rest * plain_factor};
  }

  static constexpr bool plain_gradient_may_be_nan = true;  ///< no probability, and an infinite log-ratio
  KOKKOS_INLINE_FUNCTION bool has_plain_gradient(const GradientRow& row) const {
    return row.plain_factor == row.plain_factor;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> plain_gradient(const GradientRow& row, const Columns<Real, N>& columns) const {
    Pack<Real, N> result;
    for (int j = 0; j < N; ++j) {
      const Real a = fused_multiply_add(columns.x.lane[j], scale.x_log2, row.plain_x);
      const Real b = fused_multiply_add(columns.t.lane[j], scale.t_log2, row.plain_t);
      result.lane[j] = exp2_of(a) * fused_multiply_add(a - b, row.plain_factor, row.plain_rest);
    }
    return result;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> gradient(const GradientRow& row, const Columns<Real, N>& columns, int) const {
    Pack<Real, N> result;
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real a = (columns.x.lane[j] - row.max_x) * scale.x_log2;
      const Real b = (columns.t.lane[j] - row.max_t) * scale.t_log2;
      result.lane[j] = weighted(exp2_of(a), ((a - b) - row.mean_at_maximum) - row.mean_rest) * row.factor;
    }
    return result;
  }
};

}  // namespace vocabloss::loss

#endif
