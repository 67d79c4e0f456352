// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef PERF_TESTS_HARNESS_CHECK_HPP
#define PERF_TESTS_HARNESS_CHECK_HPP

/// \file
/// \brief Our rows against the double reference. Every comparison asks whether an error is *within* its bound, so that
/// NaN fails.

#include <vocabloss/loss/accuracy.hpp>
#include <vocabloss/loss/reference.hpp>
#include <vocabloss/types.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace perf {

struct Verdict {
  double loss_error = 0;  ///< largest |ours - reference| / max(1, |reference|)
  double grad_error = 0;  ///< largest over rows of |ours - reference rounded once| / max(|reference|, 1e-6), 2-norms
  std::string fault;      ///< empty: correct

  bool is_correct() const { return fault.empty(); }
};

struct Tolerance {
  double loss, gradient;

  static Tolerance of(vocabloss::DataType logits) {
    switch (logits) {
      case vocabloss::DataType::fp64:
        return {1e-12, 1e-12};
      case vocabloss::DataType::fp32:
        return {1e-5, 1e-5};
      default:
        return {1e-5, 1e-3};
    }
  }
};

inline void blame(Verdict& verdict, const char* what, std::int64_t row, double error, double bound) {
  if (!verdict.fault.empty()) return;
  char text[160];
  std::snprintf(text, sizeof text, "%s of row %lld is off by %.3g, allowed %.3g", what, static_cast<long long>(row),
                error, bound);
  verdict.fault = text;
}

/// The larger, and NaN if either is.
inline double worse(double a, double b) { return a <= b || std::isnan(b) ? b : a; }

inline void check_loss(Verdict& verdict, std::int64_t row, double ours, double reference, double bound) {
  const double error = std::fabs(ours - reference) / std::fmax(1.0, std::fabs(reference));
  verdict.loss_error = worse(verdict.loss_error, error);
  if (!(error <= bound)) blame(verdict, "loss", row, error, bound);
}

/// A 16-bit gradient between two numbers of its type may be rounded to either, where float arithmetic decides.
template <class T>
void check_gradient(Verdict& verdict, std::int64_t row, const std::vector<T>& ours,
                    const vocabloss::reference::RowOutput& expected, double bound) {
  constexpr bool is_bf16 = vocabloss::Precision<T>::type == vocabloss::DataType::bf16;
  constexpr vocabloss::reference::Format format = is_bf16 ? vocabloss::reference::bf16 : vocabloss::reference::fp16;
  const std::vector<double>& reference = expected.gradient;
  double difference = 0, norm = 0;
  for (std::size_t j = 0; j < reference.size(); ++j) {
    const double stored = static_cast<double>(vocabloss::widen(ours[j]));
    const auto rounded = vocabloss::narrow<T>(static_cast<vocabloss::Accumulate<T>>(reference[j]));
    const bool is_right =
        sizeof(T) == 2 && vocabloss::reference::is_rounded_once(format, stored, reference[j], expected.terms[j]);
    const double one = is_right ? 0.0 : stored - static_cast<double>(vocabloss::widen(rounded));
    difference += one * one;
    norm += reference[j] * reference[j];
  }
  const double error = std::sqrt(difference) / std::fmax(std::sqrt(norm), 1e-6);
  verdict.grad_error = worse(verdict.grad_error, error);
  if (!(error <= bound)) blame(verdict, "gradient", row, error, bound);
}

/// All rows of a small problem; 32 of a large one, first and last among them.
inline std::vector<std::int64_t> rows_to_check(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t some = 32;
  const bool all = rows <= some || rows * columns <= (std::int64_t(1) << 19);
  std::vector<std::int64_t> chosen;
  const std::int64_t count = all ? rows : some;
  for (std::int64_t k = 0; k < count; ++k) chosen.push_back(count > 1 ? k * (rows - 1) / (count - 1) : 0);
  return chosen;
}

}  // namespace perf

#endif
