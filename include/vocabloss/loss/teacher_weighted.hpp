// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_TEACHER_WEIGHTED_HPP
#define VOCABLOSS_LOSS_TEACHER_WEIGHTED_HPP

/// \file
/// \brief The two losses whose terms the teacher q weighs: soft cross-entropy and forward KL, with one gradient.
///
/// soft_cross_entropy = -sum q_j log p_j; forward_kl = sum q_j (log q_j - log p_j); both: dloss/dx_j = s (p_j - q_j).
/// In the states: w = sum 2^b a gives log sum_x - w / sum_t, and w = sum 2^b (b - a) gives
/// w / sum_t - log sum_t + log sum_x. q_j > 0 where p_j = 0: loss +inf, gradient finite.

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>
#include <vocabloss/loss/options.hpp>
#include <vocabloss/loss/two_softmaxes.hpp>

namespace vocabloss::loss {

struct SoftCrossEntropyTerm {
  static constexpr bool weight_is_student = false;
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real factor(Real a, Real) {
    return a;
  }
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real shift(Real dx, Real) {
    return dx;
  }
  template <class Statistics>
  KOKKOS_INLINE_FUNCTION static auto value(const Statistics& statistics) {
    using Real = decltype(statistics.max_x + 0);
    return log1p_exactly(statistics.excess_x) - statistics.mean_log2() * Real(log_of_2);
  }
};

struct ForwardKlTerm {
  static constexpr bool weight_is_student = false;
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real factor(Real a, Real b) {
    return b - a;
  }
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real shift(Real dx, Real dt) {
    return dt - dx;
  }
  template <class Statistics>
  KOKKOS_INLINE_FUNCTION static auto value(const Statistics& statistics) {
    using Real = decltype(statistics.max_x + 0);
    return statistics.mean_log2() * Real(log_of_2) + log_of_ratio(statistics.excess_x, statistics.excess_t);
  }
};

template <class RealType, class Term>
struct TeacherWeightedLoss : TwoSoftmaxLoss<RealType, Term> {
  using Base = TwoSoftmaxLoss<RealType, Term>;
  using Real = RealType;
  using Statistics = typename Base::Statistics;
  using Base::Base;
  using Base::scale;

  KOKKOS_INLINE_FUNCTION Real value(const Statistics& statistics, int) const { return Term::value(statistics); }

  struct GradientRow {
    Real max_x, max_t, excess_x, excess_t, factor;
    Real plain_x, plain_t, plain_factor_x, plain_factor_t;
  };

  KOKKOS_INLINE_FUNCTION GradientRow gradient_row(const Statistics& statistics, const Row<Real>& row) const {
    const Real sums = (Real(1) + statistics.excess_x) * (Real(1) + statistics.excess_t);
    const RelativeLine<Real> line_x(statistics.max_x, scale.x_log2), line_t(statistics.max_t, scale.t_log2);
    const Real upstream = row.upstream[0] * scale.x;
    const bool usable = line_x.is_usable() && line_t.is_usable();
    return {statistics.max_x,
            statistics.max_t,
            statistics.excess_x,
            statistics.excess_t,
            quotient(upstream, sums),
            line_x.offset,
            line_t.offset,
            usable ? quotient(upstream, Real(1) + statistics.excess_x) * line_x.back() : not_a_number<Real>(),
            quotient(upstream, Real(1) + statistics.excess_t) * line_t.back()};
  }

  static constexpr bool plain_gradient_may_be_nan = false;
  KOKKOS_INLINE_FUNCTION bool has_plain_gradient(const GradientRow& row) const {
    return row.plain_factor_x == row.plain_factor_x;
  }
  /// At a maximum, p and q may both be almost 1.
  KOKKOS_INLINE_FUNCTION bool cares_for_maxima(const GradientRow& row) const {
    return row.excess_x < Real(PlainStream<Real>::least_plain_sum_of_two - 1) &&
           row.excess_t < Real(PlainStream<Real>::least_plain_sum_of_two - 1);
  }
  KOKKOS_INLINE_FUNCTION bool is_at_maximum(const GradientRow& row, Real max_x, Real max_t) const {
    return max_x == row.max_x || max_t == row.max_t;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> plain_gradient(const GradientRow& row, const Columns<Real, N>& columns) const {
    Pack<Real, N> result;
    for (int j = 0; j < N; ++j) {
      const Real ea = exp2_of(fused_multiply_add(columns.x.lane[j], scale.x_log2, row.plain_x));
      const Real eb = exp2_of(fused_multiply_add(columns.t.lane[j], scale.t_log2, row.plain_t));
      result.lane[j] = fused_multiply_add(ea, row.plain_factor_x, -(eb * row.plain_factor_t));
    }
    return result;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> gradient(const GradientRow& row, const Columns<Real, N>& columns, int) const {
    Pack<Real, N> result;
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real ea = exp2_of((columns.x.lane[j] - row.max_x) * scale.x_log2);
      const Real eb = exp2_of((columns.t.lane[j] - row.max_t) * scale.t_log2);
      // p - q = (ea sum_t - eb sum_x) / (sum_x sum_t), with each sum as 1 + excess: where student and teacher are sure
      // of the same column, only the difference of the two excesses is left.
      result.lane[j] = ((ea - eb) + (ea * row.excess_t - eb * row.excess_x)) * row.factor;
    }
    return result;
  }
};

template <class Real>
using SoftCrossEntropy = TeacherWeightedLoss<Real, SoftCrossEntropyTerm>;
template <class Real>
using ForwardKl = TeacherWeightedLoss<Real, ForwardKlTerm>;

}  // namespace vocabloss::loss

#endif
