// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_ROW_COMPARE_HPP
#define VOCABLOSS_ROW_COMPARE_HPP

/// \file
/// \brief A row's results against the right ones, by the rule of row_oracle.hpp.

#include <string>

#include "row_expected.hpp"

namespace row_check {

/// How far results were from the limits at worst: 1 is at the limit.
struct Worst {
  double loss = 0, gradient = 0;
  /// Of gradients beyond their limit: the error beside rounding, in units of s p_j times the upstream gradient.
  double beyond = 0;

  void take(const Worst& other) {
    loss = std::fmax(loss, other.loss), gradient = std::fmax(gradient, other.gradient);
    beyond = std::fmax(beyond, other.beyond);
  }
};

/// Empty, or what is wrong. NaN is right only where the reference is NaN.
inline std::string compare_losses(const RowLoss& loss, const ExpectedRow& row, const double* losses, Worst& worst) {
  for (int k = 0; k < loss.outputs; ++k) {
    const double ours = losses[k], wanted = row.output.losses[k];
    const double share = std::fabs(ours - wanted) / loss_limit(row, wanted);
    if (std::isfinite(share)) worst.loss = std::fmax(worst.loss, share);
    const bool same = std::isfinite(wanted) ? share <= 1 && (!row.is_masked || ours == 0)
                      : std::isnan(wanted)  ? std::isnan(ours)
                                            : ours == wanted;
    if (same) continue;
    char text[160];
    std::snprintf(text, sizeof text, "loss %d is %.9g, expected %.9g (%.2f limits)", k, ours, wanted, share);
    return text;
  }
  return "";
}

/// The same of row i's gradient, which tells of the worst column. `ours(j)`: what was stored in column j; `before(j)`:
/// what it was added to, if it was.
template <class Ours, class Before>
std::string compare_gradient(const RowLoss& loss, const RowProblem& problem, std::int64_t i, const ExpectedRow& row,
                             DataType type, bool accumulates, const Ours& ours, const Before& before, Worst& worst) {
  double worst_here = 1;
  std::string wrong;
  for (std::int64_t j = 0; j < problem.columns; ++j) {
    const double got = ours(j);
    const double exact = row.output.gradient[j] + (accumulates ? before(j) : 0.0);
    if ((std::isnan(exact) && std::isnan(got)) || got == exact) continue;
    const double scaled_x = loss.options.logit_scale / loss.options.temperature * problem.x[i * problem.columns + j];
    const double limit = row.is_masked ? 0.0 : gradient_limit(row, type, j, scaled_x, exact, accumulates);
    const double error = std::fabs(got - exact) / limit;
    const double share = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    if (std::isfinite(share)) worst.gradient = std::fmax(worst.gradient, share);
    if (share <= 1) continue;
    const double rounding = type == DataType::fp32 ? 0.0 : 0.51 * unit_of(type, exact);
    worst.beyond = std::fmax(worst.beyond, (std::fabs(got - exact) - rounding) / row.weights[j]);
    if (share <= worst_here) continue;
    worst_here = share;
    char text[160];
    std::snprintf(text, sizeof text, "gradient %lld is %.9g, expected %.9g (%.2f limits; terms %.3g)",
                  static_cast<long long>(j), got, exact, share, row.output.terms[j]);
    wrong = text;
  }
  return wrong;
}

}  // namespace row_check

#endif
