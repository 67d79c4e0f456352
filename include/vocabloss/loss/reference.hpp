// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_REFERENCE_HPP
#define VOCABLOSS_LOSS_REFERENCE_HPP

/// \file
/// \brief The losses as a textbook writes them: one row, serial, in double, on the host. The oracle of every other
/// path.
///
/// Nothing here is shared with the algebra: softmaxes are stored, formulas are those of plan.hpp's table. A loss
/// without a textbook formula (a user's own) is evaluated by its algebra in double, one column at a time.

#include <vocabloss/loss/losses.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace vocabloss::reference {

/// One row, widened to double and not yet scaled.
struct RowInput {
  std::vector<double> x;
  std::vector<double> t;  ///< empty where the loss has one stream
  int label = -1;
  double upstream[2] = {1, 1};
};

struct RowOutput {
  double losses[2] = {0, 0};
  std::vector<double> gradient;
  /// By column: the terms of the gradient's formula, each by its absolute value, upstream gradients multiplied in. That
  /// is what its rounding is relative to: see accuracy.hpp.
  std::vector<double> terms{};
};

/// Neumaier's compensated sum: the oracle must not be the one that rounds.
class Sum {
 public:
  void add(double term) {
    const double next = sum_ + term;
    const double larger = std::fabs(sum_) >= std::fabs(term) ? sum_ : term;
    const double smaller = std::fabs(sum_) >= std::fabs(term) ? term : sum_;
    if (std::isfinite(next)) lost_ += (larger - next) + smaller;
    sum_ = next;
  }
  double value() const { return sum_ + lost_; }

 private:
  double sum_ = 0;
  double lost_ = 0;
};

struct Softmax {
  std::vector<double> p, log_p;
  double lse = 0;
  bool exists = false;  ///< no NaN, no plus infinity, at least one finite logit
};

inline Softmax softmax(const std::vector<double>& logits, double scale) {
  const double infinity = std::numeric_limits<double>::infinity();
  Softmax result;
  double maximum = -infinity;
  for (const double value : logits) {
    if (std::isnan(value) || value == infinity) return result;
    maximum = std::fmax(maximum, value);
  }
  if (maximum == -infinity) return result;
  result.exists = true;
  Sum sum;
  for (const double value : logits) sum.add(std::exp((value - maximum) * scale));
  const double log_sum = std::log(sum.value());
  result.lse = maximum * scale + log_sum;
  for (const double value : logits) {
    result.log_p.push_back((value - maximum) * scale - log_sum);
    result.p.push_back(std::exp(result.log_p.back()));
  }
  return result;
}

/// weight * factor where a weight of 0 wins over an infinite factor.
inline double term(double weight, double factor) { return weight == 0 ? 0 : weight * factor; }

/// A loss's formula; the primary template is the fallback through the algebra.
template <class Loss>
struct Textbook {
  static void evaluate(const Loss& loss, const RowInput& row, RowOutput& output) {
    using Real = typename Loss::Real;
    const int columns = static_cast<int>(row.x.size());
    const auto column = [&](int j) {
      return loss::Columns<Real, 1>{{{Real(row.x[j])}}, {{row.t.empty() ? Real(0) : Real(row.t[j])}}, j};
    };
    typename Loss::Statistics statistics{};
    const auto sum_up = [&]<int round>(std::integral_constant<int, round>) {
      auto state = loss.template identity<round, 1>();
      for (int j = 0; j < columns; ++j) loss::absorb<round>(loss, state, statistics, column(j), row.label);
      loss.template finish<round>(statistics, state);
    };
    sum_up(std::integral_constant<int, 0>{});
    if constexpr (Loss::rounds == 2) sum_up(std::integral_constant<int, 1>{});
    for (int k = 0; k < Loss::outputs; ++k) output.losses[k] = loss.value(statistics, k);
    const auto slope =
        loss.gradient_row(statistics, loss::Row<Real>{row.label, {Real(row.upstream[0]), Real(row.upstream[1])}});
    for (int j = 0; j < columns; ++j) {
      output.gradient[j] = loss.gradient(slope, column(j), row.label).lane[0];
      output.terms[j] = std::fabs(output.gradient[j]);
    }
  }
};

/// Losses and gradient of one row, upstream gradients multiplied in. A poisoned row: NaN everywhere.
template <class Loss>
RowOutput evaluate(const Loss& loss, const RowInput& row) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  RowOutput output{{nan, nan}, std::vector<double>(row.x.size(), nan), std::vector<double>(row.x.size())};
  Textbook<Loss>::evaluate(loss, row, output);
  return output;
}

template <class Real, int sign>
struct Textbook<loss::LabelLoss<Real, sign>> {
  static void evaluate(const loss::LabelLoss<Real, sign>& loss, const RowInput& row, RowOutput& output) {
    const Softmax student = softmax(row.x, loss.scale);
    if (!student.exists) return;
    output.losses[0] = -sign * student.log_p[row.label];
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      const double one = static_cast<int>(j) == row.label ? 1 : 0;
      output.gradient[j] = sign * row.upstream[0] * loss.scale * (student.p[j] - one);
      output.terms[j] = std::fabs(row.upstream[0]) * loss.scale * (student.p[j] + one);
    }
  }
};

template <class Real>
struct Textbook<loss::ZLoss<Real>> {
  static void evaluate(const loss::ZLoss<Real>& loss, const RowInput& row, RowOutput& output) {
    const Softmax student = softmax(row.x, loss.scale);
    if (!student.exists) return;
    output.losses[0] = student.lse * student.lse;
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      output.gradient[j] = row.upstream[0] * 2 * loss.scale * student.lse * student.p[j];
      output.terms[j] = std::fabs(output.gradient[j]);
    }
  }
};

template <class Real, bool with_label>
struct Textbook<loss::EntropyLoss<Real, with_label>> {
  static void evaluate(const loss::EntropyLoss<Real, with_label>& loss, const RowInput& row, RowOutput& output) {
    const Softmax student = softmax(row.x, loss.scale);
    if (!student.exists) return;
    constexpr int at = with_label ? 1 : 0;
    Sum negative;
    for (std::size_t j = 0; j < row.x.size(); ++j) negative.add(term(student.p[j], student.log_p[j]));
    const double entropy = -negative.value();
    output.losses[at] = entropy;
    if (with_label) output.losses[0] = student.log_p[row.label];
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      output.gradient[j] = -row.upstream[at] * loss.scale * term(student.p[j], student.log_p[j] + entropy);
      const double one = static_cast<int>(j) == row.label ? 1 : 0;
      if (with_label) output.gradient[j] += row.upstream[0] * loss.scale * (one - student.p[j]);
      output.terms[j] =
          std::fabs(row.upstream[at]) * loss.scale * term(student.p[j], std::fabs(student.log_p[j]) + entropy);
      if (with_label) output.terms[j] += std::fabs(row.upstream[0]) * loss.scale * (one + student.p[j]);
    }
  }
};

template <class Real>
struct Textbook<loss::SoftCrossEntropyProbabilities<Real>> {
  static void evaluate(const loss::SoftCrossEntropyProbabilities<Real>& loss, const RowInput& row, RowOutput& output) {
    const Softmax student = softmax(row.x, loss.scale);
    if (!student.exists) return;
    Sum targets, sizes, cross_entropy;
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      if (!std::isfinite(row.t[j])) return;
      targets.add(row.t[j]);
      sizes.add(std::fabs(row.t[j]));
      cross_entropy.add(-term(row.t[j], student.log_p[j]));
    }
    output.losses[0] = cross_entropy.value();
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      output.gradient[j] = row.upstream[0] * loss.scale * (targets.value() * student.p[j] - row.t[j]);
      output.terms[j] = std::fabs(row.upstream[0]) * loss.scale * (sizes.value() * student.p[j] + std::fabs(row.t[j]));
    }
  }
};

/// Soft cross-entropy and forward KL: `Term` tells which.
template <class Real, class Term>
struct Textbook<loss::TeacherWeightedLoss<Real, Term>> {
  static void evaluate(const loss::TeacherWeightedLoss<Real, Term>& loss, const RowInput& row, RowOutput& output) {
    const Softmax student = softmax(row.x, loss.scale.x);
    const Softmax teacher = softmax(row.t, loss.scale.t_log2 * loss::log_of_2);
    if (!student.exists || !teacher.exists) return;
    const bool divergence = std::is_same_v<Term, loss::ForwardKlTerm>;
    Sum sum;
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      sum.add(term(teacher.p[j], (divergence ? teacher.log_p[j] : 0.0) - student.log_p[j]));
      output.gradient[j] = row.upstream[0] * loss.scale.x * (student.p[j] - teacher.p[j]);
      output.terms[j] = std::fabs(row.upstream[0]) * loss.scale.x * (student.p[j] + teacher.p[j]);
    }
    output.losses[0] = sum.value();
  }
};

template <class Real>
struct Textbook<loss::ReverseKl<Real>> {
  static void evaluate(const loss::ReverseKl<Real>& loss, const RowInput& row, RowOutput& output) {
    const Softmax student = softmax(row.x, loss.scale.x);
    const Softmax teacher = softmax(row.t, loss.scale.t_log2 * loss::log_of_2);
    if (!student.exists || !teacher.exists) return;
    Sum sum;
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      sum.add(term(student.p[j], student.log_p[j] - teacher.log_p[j]));
    }
    const double divergence = sum.value();
    output.losses[0] = divergence;
    if (!std::isfinite(divergence)) return;  // the gradient row stays NaN
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      const double d = student.log_p[j] - teacher.log_p[j];
      output.gradient[j] = row.upstream[0] * loss.scale.x * term(student.p[j], d - divergence);
      const double sizes = std::fabs(student.log_p[j]) + std::fabs(teacher.log_p[j]) + std::fabs(divergence);
      output.terms[j] = std::fabs(row.upstream[0]) * loss.scale.x * term(student.p[j], sizes);
    }
  }
};

template <class Real>
struct Textbook<loss::Jsd<Real>> {
  static void evaluate(const loss::Jsd<Real>& loss, const RowInput& row, RowOutput& output) {
    const Softmax student = softmax(row.x, loss.scale.x);
    const Softmax teacher = softmax(row.t, loss.scale.t_log2 * loss::log_of_2);
    if (!student.exists || !teacher.exists) return;
    const double beta = loss.beta;
    Sum of_student, of_teacher;
    std::vector<double> log_p_over_m;
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      const double p = std::log1p(-beta) + student.log_p[j];
      const double q = std::log(beta) + teacher.log_p[j];
      const double log_m = std::fmax(p, q) + std::log1p(std::exp(-std::fabs(p - q)));
      log_p_over_m.push_back(student.log_p[j] - log_m);
      of_student.add(term(student.p[j], student.log_p[j] - log_m));
      of_teacher.add(term(teacher.p[j], teacher.log_p[j] - log_m));
    }
    output.losses[0] = beta * of_teacher.value() + (1 - beta) * of_student.value();
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      output.gradient[j] =
          row.upstream[0] * loss.scale.x * (1 - beta) * term(student.p[j], log_p_over_m[j] - of_student.value());
      const double log_m = student.log_p[j] - log_p_over_m[j];
      const double sizes = std::fabs(student.log_p[j]) + std::fabs(log_m) + std::fabs(of_student.value());
      output.terms[j] = std::fabs(row.upstream[0]) * loss.scale.x * (1 - beta) * term(student.p[j], sizes);
    }
  }
};

}  // namespace vocabloss::reference

#endif
