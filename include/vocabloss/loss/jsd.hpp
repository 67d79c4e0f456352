// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_JSD_HPP
#define VOCABLOSS_LOSS_JSD_HPP

/// \file
/// \brief Generalised Jensen-Shannon divergence: two streams, two rounds of statistics.
///
/// m = (1 - beta) p + beta q; loss = beta KL(q, m) + (1 - beta) KL(p, m);
/// dloss/dx_j = s (1 - beta) p_j (log(p_j / m_j) - sum p log(p / m)).
/// The first round finds both softmaxes, the second the two sums. The loss is finite for all rows that are not
/// poisoned. beta in (0, 1): exactly 0 and exactly 1 are loss::ForwardKl and loss::ReverseKl, and the caller is sent
/// there.
///
/// Where one column has almost all of p, log(p_j / m_j) of it and the mean of them all cancel. They do so to the digit
/// only if the second round and the gradient find it in the same way, whichever kernel runs them: see Mixture.

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>
#include <vocabloss/loss/options.hpp>
#include <vocabloss/loss/two_softmaxes.hpp>

#include <limits>

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
      add_column(state.of_student.lane[j % Lanes], state.of_teacher.lane[j % Lanes], statistics, columns.x.lane[j],
                 columns.t.lane[j]);
    }
  }
  template <int Round, class AnyState, int N>
  KOKKOS_INLINE_FUNCTION void accumulate(AnyState& state, const Statistics& statistics, const Columns<Real, N>& columns,
                                         int) const {
    accumulate_round(state, statistics, columns);
  }
  template <int Round>
  static constexpr RoundSums round_sums{.maxima = Round == 0, .weighted = false};

  template <int Round>
  KOKKOS_INLINE_FUNCTION void raise_plainly(PlainSums<Real>& sums, Real max_x, Real max_t) const {
    sums.x.raise(max_x, scale.x_log2);
    sums.t.raise(max_t, scale.t_log2);
  }
  /// In the second round these are the same sums as of `accumulate`.
  template <int Round, int N>
  KOKKOS_INLINE_FUNCTION void sum_plainly(PlainSums<Real>& sums, const Statistics& statistics,
                                          const Columns<Real, N>& columns) const {
    for (int j = 0; j < N; ++j) {
      if constexpr (Round == 0) {
        sums.x.sum += exp2_of(sums.x.at(columns.x.lane[j], scale.x_log2));
        sums.t.sum += exp2_of(sums.t.at(columns.t.lane[j], scale.t_log2));
      } else {
        add_column(sums.x.sum, sums.t.sum, statistics, columns.x.lane[j], columns.t.lane[j]);
      }
    }
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION bool is_good(const PlainSums<Real>& sums, const Statistics& statistics, Real low) const {
    if constexpr (Round == 0) {
      const RelativeLine<Real> line_x(sums.x.maximum, scale.x_log2), line_t(sums.t.maximum, scale.t_log2);
      return sums.x.keeps_digits_of_difference() && sums.t.keeps_digits_of_difference() && line_x.is_usable(low) &&
             line_t.is_usable(low);
    } else {
      const Real below_x = (low - statistics.max_x) * scale.x_log2, below_t = (low - statistics.max_t) * scale.t_log2;
      return below_x < Real(-160) && below_t < Real(-160);
    }
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> from_plain(const PlainSums<Real>& sums, const Statistics&) const {
    State<Round> state = identity<Round, 1>();
    if constexpr (Round == 0) {
      state.x = softmax_sum_of(sums.x, RelativeLine<Real>(sums.x.maximum, scale.x_log2).back());
      state.t = softmax_sum_of(sums.t, RelativeLine<Real>(sums.t.maximum, scale.t_log2).back());
    } else {
      state.of_student.lane[0] = sums.x.sum;
      state.of_teacher.lane[0] = sums.t.sum;
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
    return {statistics.max_x,      statistics.log2_sum_x, statistics.max_t,
            statistics.log2_sum_t, statistics.of_student, factor};
  }

  static constexpr bool plain_gradient_may_be_nan = false;
  KOKKOS_INLINE_FUNCTION static bool has_plain_gradient(const GradientRow&) { return true; }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> plain_gradient(const GradientRow& row, const Columns<Real, N>& columns) const {
    return gradient(row, columns, 0);
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION Pack<Real, N> gradient(const GradientRow& row, const Columns<Real, N>& columns, int) const {
    Pack<Real, N> result;
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const Real log_p_of_column = log_p(row, columns.x.lane[j]);
      const Mixture mixture(*this, log_p_of_column, log_q(row, columns.t.lane[j]));
      result.lane[j] = (-mixture.log_m_over_p - row.of_student) * (exp2_of(log_p_of_column) * row.factor);
    }
    return result;
  }

 private:
  /// A column, in units of log 2. m is relative to p, so that where student and teacher are near each other, log(m / p)
  /// is not a difference of two logarithms of another size. Where p would be less than any normal number, it is that
  /// number: then the ratio of q to it is no larger than a number may be, and q is right.
  struct Mixture {
    Real log_p, log_q_over_p, q_over_p, log_m_over_p;

    KOKKOS_INLINE_FUNCTION Mixture(const Jsd& loss, Real log_p_or_less, Real log_q)
        : log_p(larger(log_p_or_less, Real(std::numeric_limits<Real>::min_exponent))),
          log_q_over_p(log_q - log_p),
          q_over_p(exp2_of(log_q_over_p)),
          log_m_over_p(log2_of(multiply_add(loss.beta, q_over_p, loss.one_minus_beta))) {}
  };
  /// `of_row`: its statistics, or what of them the gradient has.
  template <class OfRow>
  KOKKOS_INLINE_FUNCTION Real log_p(const OfRow& of_row, Real x) const {
    return multiply_add(x - of_row.max_x, scale.x_log2, -of_row.log2_sum_x);
  }
  template <class OfRow>
  KOKKOS_INLINE_FUNCTION Real log_q(const OfRow& of_row, Real t) const {
    return multiply_add(t - of_row.max_t, scale.t_log2, -of_row.log2_sum_t);
  }
  /// Adds a column to the sums of the second round.
  KOKKOS_INLINE_FUNCTION void add_column(Real& of_student, Real& of_teacher, const Statistics& statistics, Real x,
                                         Real t) const {
    const Mixture mixture(*this, log_p(statistics, x), log_q(statistics, t));
    const Real p = exp2_of(mixture.log_p);
    // A weight of 0 must not meet infinity.
    const Real log_q_over_p = larger(mixture.log_q_over_p, Real(2 * std::numeric_limits<Real>::min_exponent));
    of_student = multiply_add(p, -mixture.log_m_over_p, of_student);
    of_teacher = multiply_add(p * mixture.q_over_p, log_q_over_p - mixture.log_m_over_p, of_teacher);
  }
};

}  // namespace vocabloss::loss

#endif
