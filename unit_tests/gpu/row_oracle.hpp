// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_ROW_ORACLE_HPP
#define VOCABLOSS_ROW_ORACLE_HPP

/// \file
/// \brief What a row must give, and how near to it is right: the accuracy rule of the library.
///
/// Losses: within 3e-6 of max(1, |loss|). 16-bit gradients: rounded once from something as good as float, 0.51 units in
/// the last place and 1e-6 of p_j times the terms subtracted. Of terms below some 5e-8 a float knows less: the
/// logarithm of a probability is rounded by up to half a unit in its last place, 2^-24 |log p_j|, and p_j by as much of
/// itself. Float gradients: 2^-22 max(8, |lse|, |s x_j|) of p_j times those terms.
///
/// The terms subtracted are those of the formula written out, each by its absolute value:
///     labels                       p_j and 1
///     teacher logits, probability  p_j (times the sum of q) and q_j
///     reverse KL                   p_j times |log p_j|, |log q_j| and |loss|
///     JSD                          p_j times |log p_j|, |log m_j| and |sum p log(p / m)|
///     entropy                      p_j times |log p_j| and H
/// The two logarithms count apart, not as their difference d_j, because each is rounded before they are subtracted: of
/// two columns with log p_j = -10 and d_j = 0.01, float knows d_j no better than log p_j itself. In a limit of |d_j| +
/// |loss| alone a row where p and q are near each other, which is what training makes of them, would be asked for
/// digits that no float holds.

#include <vocabloss/loss/options.hpp>
#include <vocabloss/loss/reference.hpp>

#include "row_problem.hpp"

namespace row_check {

/// Sums of the absolute terms of a row's gradient, upstream multiplied in. `student`, `teacher`: softmaxes that exist.
using Terms = void (*)(const LossOptions&, const reference::RowInput&, const reference::Softmax& student,
                       const reference::Softmax& teacher, double* terms);

struct TermsOf {
  using Softmax = reference::Softmax;
  using Row = reference::RowInput;

  static double scale(const LossOptions& options) { return options.logit_scale / options.temperature; }
  static void label(const LossOptions& o, const Row& row, const Softmax& student, const Softmax&, double* terms) {
    for (std::size_t j = 0; j < student.p.size(); ++j) {
      terms[j] += std::fabs(row.upstream[0]) * scale(o) * (student.p[j] + (static_cast<int>(j) == row.label ? 1 : 0));
    }
  }
  static void teacher_logits(const LossOptions& o, const Row& row, const Softmax& p, const Softmax& q, double* terms) {
    for (std::size_t j = 0; j < p.p.size(); ++j) terms[j] = std::fabs(row.upstream[0]) * scale(o) * (p.p[j] + q.p[j]);
  }
  static void probabilities(const LossOptions& o, const Row& row, const Softmax& p, const Softmax&, double* terms) {
    double sum = 0;
    for (const double q : row.t) sum += std::fabs(q);
    for (std::size_t j = 0; j < p.p.size(); ++j) {
      terms[j] = std::fabs(row.upstream[0]) * scale(o) * (p.p[j] * sum + std::fabs(row.t[j]));
    }
  }
  static void reverse_kl(const LossOptions& o, const Row& row, const Softmax& p, const Softmax& q, double* terms) {
    double loss = 0;
    for (std::size_t j = 0; j < p.p.size(); ++j) loss += reference::term(p.p[j], p.log_p[j] - q.log_p[j]);
    for (std::size_t j = 0; j < p.p.size(); ++j) {
      const double sum = std::fabs(p.log_p[j]) + std::fabs(q.log_p[j]) + std::fabs(loss);
      terms[j] = std::fabs(row.upstream[0]) * scale(o) * reference::term(p.p[j], sum);
    }
  }
  static void jsd(const LossOptions& o, const Row& row, const Softmax& p, const Softmax& q, double* terms) {
    double mean = 0;
    for (std::size_t j = 0; j < p.p.size(); ++j) {
      const double a = std::log1p(-o.jsd_beta) + p.log_p[j], b = std::log(o.jsd_beta) + q.log_p[j];
      const double log_m = std::fmax(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
      mean += reference::term(p.p[j], p.log_p[j] - log_m);
      terms[j] = std::fabs(p.log_p[j]) + std::fabs(log_m);
    }
    for (std::size_t j = 0; j < p.p.size(); ++j) {
      const double sum = reference::term(p.p[j], terms[j] + std::fabs(mean));
      terms[j] = std::fabs(row.upstream[0]) * scale(o) * (1 - o.jsd_beta) * sum;
    }
  }
  static void z_loss(const LossOptions& o, const Row& row, const Softmax& p, const Softmax&, double* terms) {
    for (std::size_t j = 0; j < p.p.size(); ++j) {
      terms[j] = std::fabs(row.upstream[0]) * 2 * scale(o) * std::fabs(p.lse) * p.p[j];
    }
  }
  template <int output>
  static void entropy(const LossOptions& o, const Row& row, const Softmax& p, const Softmax&, double* terms) {
    double entropy = 0;
    for (std::size_t j = 0; j < p.p.size(); ++j) entropy -= reference::term(p.p[j], p.log_p[j]);
    for (std::size_t j = 0; j < p.p.size(); ++j) {
      const double sum = reference::term(p.p[j], std::fabs(p.log_p[j]) + entropy);
      terms[j] = std::fabs(row.upstream[output]) * scale(o) * sum;
    }
  }
  static void label_and_entropy(const LossOptions& o, const Row& row, const Softmax& p, const Softmax& q,
                                double* terms) {
    entropy<1>(o, row, p, q, terms);
    label(o, row, p, q, terms);
  }
};

/// A row's right answer.
struct ExpectedRow {
  reference::RowOutput output;  ///< weights and factors multiplied in
  std::vector<double> terms;
  double loss_factor = 1;  ///< of the losses
  double lse = 0;
  std::vector<double> weights;  ///< s p_j times the upstream gradients: what an error of 1 in log p_j amounts to
  double unit = 0;              ///< s times the upstream gradients
  bool is_masked = false;       ///< exactly 0
};

/// One unit in the last place of a stored value.
inline double unit_of(DataType type, double value) {
  const int digits = type == DataType::bf16 ? 8 : type == DataType::fp16 ? 11 : 24;
  const int lowest = type == DataType::fp16 ? -14 : -126;
  const int exponent = value == 0 ? lowest : std::max(lowest, std::ilogb(value));
  return std::ldexp(1.0, exponent + 1 - digits);
}

inline double loss_limit(const ExpectedRow& row, double wanted) {
  return 3e-6 * std::fmax(row.loss_factor, std::fabs(wanted));
}

/// Probabilities below the smallest normal float may be 0 (loss/math.hpp). The oracle is a double: of terms that all
/// but vanish it knows some 1e-14 of p_j.
inline double gradient_limit(const ExpectedRow& row, DataType type, std::int64_t j, double scaled_x, double exact,
                             bool accumulates) {
  const double magnitude =
      std::fmax(std::fmax(8.0, std::fabs(row.lse)), std::isfinite(scaled_x) ? std::fabs(scaled_x) : 0.0);
  const double unknown = 0x1p-126 * magnitude + 1e-14 * row.weights[j];
  if (type == DataType::fp32) {
    return 0x1p-22 * magnitude * row.terms[j] + (accumulates ? 0.51 * unit_of(type, exact) : 0.0) + unknown;
  }
  // Of the largest of the terms: where one is small beside another, its logarithm does not matter.
  const double probability = std::fmax(row.terms[j], row.weights[j]) / row.unit;
  const double of_logarithm = probability > 0 ? 0x1p-24 * -std::log(probability) : 0.0;
  return 0.51 * unit_of(type, exact) + std::fmax(1e-6, of_logarithm) * row.terms[j] + unknown;
}

}  // namespace row_check

#endif
