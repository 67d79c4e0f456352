// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_JSD_HPP
#define VOCABLOSS_LOSS_JSD_HPP

/// \file
/// \brief Generalised Jensen-Shannon divergence: two streams, two rounds of statistics.
///
/// m = (1 - beta) p + beta q; loss = beta KL(q, m) + (1 - beta) KL(p, m);
/// dloss/dx_j = s (1 - beta) p_j (log(p_j / m_j) - sum p log(p / m)).
/// The first round finds both softmaxes, the second the two sums. The mixture is formed in log space: with
/// d = log p_j - log q_j, log(m / larger of p and q) = log(w1 + w2 2^-|d|) with w1, w2 the weights of the larger and
/// the smaller, which neither overflows nor takes the logarithm of 0. The loss is finite for all rows that are not
/// poisoned. beta in (0, 1): exactly 0 and exactly 1 are loss::ForwardKl and loss::ReverseKl, and the caller is sent
/// there.

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>
#include <vocabloss/loss/options.hpp>
#include <vocabloss/loss/two_softmaxes.hpp>

namespace vocabloss::loss {

template <class RealType>
struct Jsd {
  using Real = RealType;
  using Options = LossOptions;
  static constexpr int streams = 2;
  static constexpr bool teacher_is_logits = true;
  static constexpr bool needs_label = false;
  static constexpr int rounds = 2;
  static constexpr int outputs = 1;

  TwoScales<Real> scale;
  Real beta, one_minus_beta;

  explicit Jsd(const Options& options)
      : scale(options), beta(Real(options.jsd_beta)), one_minus_beta(Real(1.0 - options.jsd_beta)) {}

  template <class Sum>
  struct SoftmaxRound {
    Sum x, t;
  };
  /// sum q log2(q / m) and sum p log2(p / m): plain sums, since p and q are known by then.
  template <class Sum>
  struct MixtureRound {
    Sum of_teacher, of_student;
  };
  template <int Round, int Lanes = 1>
  using State =
      std::conditional_t<Round == 0, SoftmaxRound<SoftmaxSum<Real, Lanes>>, MixtureRound<LaneSum<Real, Lanes>>>;

  struct Statistics {
    Real max_x, log2_sum_x, max_t, log2_sum_t, of_teacher, of_student;
  };
  struct GradientRow {
    Real max_x, log2_sum_x, max_t, log2_sum_t, of_student, factor;
    Real plain_x, plain_t, plain_weight_q, plain_factor, plain_rest;
  };

  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round, Lanes> identity() {
    if constexpr (Round == 0) {
      return {SoftmaxSum<Real, Lanes>::identity(), SoftmaxSum<Real, Lanes>::identity()};
    } else {
      return {LaneSum<Real, Lanes>::zero(), LaneSum<Real, Lanes>::zero()};
    }
  }
  template <int Round, class AnyState>
  KOKKOS_INLINE_FUNCTION void raise(AnyState& state, Real max_x, Real max_t) const {
    if constexpr (Round == 0) {
      state.x.raise(max_x, scale.x_log2);
      state.t.raise(max_t, scale.t_log2);
    }
  }
  template <int Lanes, int N>
  KOKKOS_INLINE_FUNCTION void accumulate_round(SoftmaxRound<SoftmaxSum<Real, Lanes>>& state, const Statistics&,
                                               const Columns<Real, N>& columns) const {
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real a = state.x.relative(columns.x.lane[j], scale.x_log2);
      const Real b = state.t.relative(columns.t.lane[j], scale.t_log2);
      state.x.add(j % Lanes, a, exp2_of(a));
      state.t.add(j % Lanes, b, exp2_of(b));
    }
  }
  template <int Lanes, int N>
  KOKKOS_INLINE_FUNCTION void accumulate_round(MixtureRound<LaneSum<Real, Lanes>>& state, const Statistics& statistics,
                                               const Columns<Real, N>& columns) const {
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real log_p = log_of((columns.x.lane[j] - statistics.max_x) * scale.x_log2 - statistics.log2_sum_x);
      const Real log_q = log_of((columns.t.lane[j] - statistics.max_t) * scale.t_log2 - statistics.log2_sum_t);
      const Mixture mixture = mix(log_p, log_q);
      const Real larger_one = exp2_of(larger(log_p, log_q));
      const Real smaller_one = larger_one * mixture.ratio;
      const Real p = mixture.log_ratio > Real(0) ? larger_one : smaller_one;
      const Real q = mixture.log_ratio > Real(0) ? smaller_one : larger_one;
      state.of_teacher.lane[j % Lanes] += q * mixture.log_q_over_m();
      state.of_student.lane[j % Lanes] += p * mixture.log_p_over_m();
    }
  }
  template <int Round, class AnyState, int N>
  KOKKOS_INLINE_FUNCTION void accumulate(AnyState& state, const Statistics& statistics, const Columns<Real, N>& columns,
                                         int) const {
    accumulate_round(state, statistics, columns);
  }
  template <int Round>
  static constexpr RoundSums round_sums{.maxima = Round == 0, .weighted = Round == 1};

  template <int Round>
  KOKKOS_INLINE_FUNCTION void raise_plainly(PlainSums<Real>& sums, Real max_x, Real max_t) const {
    sums.x.raise(max_x, scale.x_log2);
    sums.t.raise(max_t, scale.t_log2);
  }
  /// In the second round the sums are those of p and q times the logarithms of their ratios to m, and that of q.
  template <int Round, int N>
  KOKKOS_INLINE_FUNCTION void sum_plainly(PlainSums<Real>& sums, const Statistics& statistics,
                                          const Columns<Real, N>& columns) const {
    if constexpr (Round == 0) {
      for (int j = 0; j < N; ++j) {
        sums.x.sum += exp2_of(sums.x.at(columns.x.lane[j], scale.x_log2));
        sums.t.sum += exp2_of(sums.t.at(columns.t.lane[j], scale.t_log2));
      }
    } else {
      const PlainMixture mixture(*this, statistics);
      for (int j = 0; j < N; ++j) {
        const Real log_p = fused_multiply_add(columns.x.lane[j], scale.x_log2, mixture.x);
        const Real log_q = fused_multiply_add(columns.t.lane[j], scale.t_log2, mixture.t);
        const Real p = exp2_of(log_p);
        const Real q = exp2_of(log_q);
        const Real log_m = log2_of(multiply_add(p, one_minus_beta, multiply_add(q, mixture.weight_q, Real(least_m))));
        sums.x.sum = multiply_add(p, log_p - log_m, sums.x.sum);
        sums.t.sum = multiply_add(q, log_q - log_m, sums.t.sum);
        sums.weighted += q;
      }
    }
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION bool is_good(const PlainSums<Real>& sums, const Statistics& statistics, Real low) const {
    const bool is_first = Round == 0;
    const RelativeLine<Real> line_x(is_first ? sums.x.maximum : statistics.max_x, scale.x_log2);
    const RelativeLine<Real> line_t(is_first ? sums.t.maximum : statistics.max_t, scale.t_log2);
    const Real both = sums.x.sum + sums.t.sum;
    const bool is_fine = is_first ? sums.x.keeps_digits_of_difference() && sums.t.keeps_digits_of_difference()
                                  : both - both == Real(0) && !is_decided(statistics);
    return is_fine && line_x.is_usable(low) && line_t.is_usable(low);
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> from_plain(const PlainSums<Real>& sums, const Statistics& statistics) const {
    State<Round> state = identity<Round, 1>();
    if constexpr (Round == 0) {
      state.x = softmax_sum_of(sums.x, RelativeLine<Real>(sums.x.maximum, scale.x_log2).back());
      state.t = softmax_sum_of(sums.t, RelativeLine<Real>(sums.t.maximum, scale.t_log2).back());
    } else {
      const PlainMixture mixture(*this, statistics);
      state.of_student.lane[0] = sums.x.sum * mixture.back_x;
      state.of_teacher.lane[0] =
          multiply_add(mixture.lost_t - mixture.lost_x, sums.weighted, sums.t.sum) * mixture.back_t;
    }
    return state;
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round> collapse(const State<Round, Lanes>& state) {
    if constexpr (Round == 0) {
      return {state.x.collapse(), state.t.collapse()};
    } else {
      return {state.of_teacher.total(), state.of_student.total()};
    }
  }
  template <int Round, class AnyState>
  KOKKOS_INLINE_FUNCTION AnyState add(AnyState a, const AnyState& b) const {
    if constexpr (Round == 0) {
      a.x.add(b.x);
      a.t.add(b.t);
    } else {
      a.of_teacher.add(b.of_teacher);
      a.of_student.add(b.of_student);
    }
    return a;
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> merge(const State<Round>& a, const State<Round>& b) const {
    if constexpr (Round == 0) {
      return {loss::merge(a.x, b.x, scale.x_log2), loss::merge(a.t, b.t, scale.t_log2)};
    } else {
      return add<Round>(a, b);
    }
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION void finish(Statistics& statistics, const State<Round>& state) const {
    if constexpr (Round == 0) {
      if (!state.x.exists() || !state.t.exists()) return poison(statistics, not_a_number<Real>());
      statistics = {state.x.maximum, log2_of_sum(state.x.excess()),
                    state.t.maximum, log2_of_sum(state.t.excess()),
                    Real(0),         Real(0)};
    } else if (statistics.log2_sum_x == statistics.log2_sum_x) {  // else poisoned by the first round
      statistics.of_teacher = state.of_teacher.value();
      statistics.of_student = state.of_student.value();
    }
  }
  KOKKOS_INLINE_FUNCTION Real value(const Statistics& statistics, int) const {
    return (beta * statistics.of_teacher + one_minus_beta * statistics.of_student) * Real(log_of_2);
  }
  KOKKOS_INLINE_FUNCTION GradientRow gradient_row(const Statistics& statistics, const Row<Real>& row) const {
    const Real factor = row.upstream[0] * scale.x * one_minus_beta * Real(log_of_2);
    const PlainMixture mixture(*this, statistics);
    const Real plain_factor = factor * mixture.back_x;
    return {statistics.max_x,
            statistics.log2_sum_x,
            statistics.max_t,
            statistics.log2_sum_t,
            statistics.of_student,
            factor,
            mixture.x,
            mixture.t,
            mixture.weight_q,
            mixture.is_usable && !is_decided(statistics) ? plain_factor : not_a_number<Real>(),
            -statistics.of_student * plain_factor};
  }

  static constexpr bool plain_gradient_may_be_nan =
      true;  ///< minus infinity: no probability, and an infinite logarithm
  KOKKOS_INLINE_FUNCTION bool has_plain_gradient(const GradientRow& row) const {
    return row.plain_factor == row.plain_factor;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> plain_gradient(const GradientRow& row, const Columns<Real, N>& columns) const {
    Pack<Real, N> result;
    for (int j = 0; j < N; ++j) {
      const Real log_p = fused_multiply_add(columns.x.lane[j], scale.x_log2, row.plain_x);
      const Real log_q = fused_multiply_add(columns.t.lane[j], scale.t_log2, row.plain_t);
      const Real p = exp2_of(log_p);
      const Real q = exp2_of(log_q);
      const Real log_m = log2_of(multiply_add(p, one_minus_beta, multiply_add(q, row.plain_weight_q, Real(least_m))));
      result.lane[j] = p * fused_multiply_add(log_p - log_m, row.plain_factor, row.plain_rest);
    }
    return result;
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> gradient(const GradientRow& row, const Columns<Real, N>& columns, int) const {
    Pack<Real, N> result;
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real log_p = log_of((columns.x.lane[j] - row.max_x) * scale.x_log2 - row.log2_sum_x);
      const Real log_q = log_of((columns.t.lane[j] - row.max_t) * scale.t_log2 - row.log2_sum_t);
      result.lane[j] = exp2_of(log_p) * (mix(log_p, log_q).log_p_over_m() - row.of_student) * row.factor;
    }
    return result;
  }

 private:
  static constexpr double least_m = 1e-36;  ///< keeps a logarithm finite where p and q vanish

  /// Whether one column has almost all of p. Its log p - log m and the mean of them cancel, to the digit only if both
  /// are found in the same way.
  KOKKOS_INLINE_FUNCTION static bool is_decided(const Statistics& statistics) {
    return !(statistics.log2_sum_x >= Real(0.087));  // log2 of PlainStream::least_plain_sum_of_two
  }

  /// The mixture from p and q themselves: log p and log q in one multiply-add each, with constants rounded once. What
  /// that loses of a logarithm, `lost`, is the same for all columns; log_m is found too small by as much as log_p is,
  /// so that their difference is right.
  struct PlainMixture {
    Real x, t;  ///< log2 p = x_j scale + x + lost_x
    Real lost_x, lost_t;
    Real back_x, back_t;  ///< 2^lost
    Real weight_q;
    bool is_usable;

    KOKKOS_INLINE_FUNCTION PlainMixture(const Jsd& loss, const Statistics& statistics) {
      const RelativeLine<Real> line_x(statistics.max_x, loss.scale.x_log2);
      const RelativeLine<Real> line_t(statistics.max_t, loss.scale.t_log2);
      const ExactSum<Real> offset_x(line_x.offset, -statistics.log2_sum_x);
      const ExactSum<Real> offset_t(line_t.offset, -statistics.log2_sum_t);
      x = offset_x.sum;
      t = offset_t.sum;
      lost_x = offset_x.lost - line_x.residual;
      lost_t = offset_t.lost - line_t.residual;
      back_x = exp2_of(lost_x);
      back_t = exp2_of(lost_t);
      const Real back_m = exp2_of(-lost_x);
      weight_q = loss.beta * back_t * back_m;
      is_usable = line_x.is_usable() && line_t.is_usable();
    }
  };

  struct Mixture {
    Real ratio;      ///< the smaller of p and q over the larger
    Real log_ratio;  ///< log p - log q
    Real log_m;      ///< relative to the larger of the two: in [log of the smaller weight, 0]

    KOKKOS_INLINE_FUNCTION Real log_p_over_m() const { return -larger(-log_ratio, Real(0)) - log_m; }
    KOKKOS_INLINE_FUNCTION Real log_q_over_m() const { return -larger(log_ratio, Real(0)) - log_m; }
  };

  /// A probability's logarithm, kept finite far below where the probability itself becomes 0: so no product below is 0
  /// times infinity. (A poisoned row is known by its statistics.)
  KOKKOS_INLINE_FUNCTION static Real log_of(Real log_p) {
    return larger(log_p, Real(sizeof(Real) == 4 ? -200 : -1200));
  }

  /// log_p and log_q in units of log 2, finite.
  KOKKOS_INLINE_FUNCTION Mixture mix(Real log_p, Real log_q) const {
    const Real d = log_p - log_q;
    const bool student_is_larger = d > Real(0);
    const Real ratio = exp2_of(student_is_larger ? -d : d);
    const Real of_larger = student_is_larger ? one_minus_beta : beta;
    const Real of_smaller = student_is_larger ? beta : one_minus_beta;
    return {ratio, d, log2_of(of_larger + of_smaller * ratio)};
  }
};

}  // namespace vocabloss::loss

#endif
