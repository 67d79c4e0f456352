// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_ROW_ORACLE_HPP
#define VOCABLOSS_ROW_ORACLE_HPP

/// \file
/// \brief What a row must give, and how near to it is right: the rule of loss/accuracy.hpp.

#include <vocabloss/loss/accuracy.hpp>
#include <vocabloss/loss/options.hpp>
#include <vocabloss/loss/reference.hpp>

#include "row_problem.hpp"

namespace row_check {

inline double unit_of(DataType type, double value) {
  const bool is_bf16 = type == DataType::bf16, is_fp16 = type == DataType::fp16;
  return reference::unit_of(is_bf16 ? reference::bf16 : is_fp16 ? reference::fp16 : reference::fp32, value);
}

/// A row's right answer.
struct ExpectedRow {
  reference::RowOutput output;  ///< weights and factors multiplied in
  double loss_factor = 1;       ///< of the losses
  double lse = 0;
  std::vector<double> weights;  ///< s p_j times the upstream gradients: what an error of 1 in log p_j amounts to
  double unit = 0;              ///< s times the upstream gradients
  bool is_masked = false;       ///< exactly 0
};

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
    return 0x1p-22 * magnitude * row.output.terms[j] + (accumulates ? 0.51 * unit_of(type, exact) : 0.0) + unknown;
  }
  // Of the largest of the terms: where one is small beside another, its logarithm does not matter.
  const double probability = std::fmax(row.output.terms[j], row.weights[j]) / row.unit;
  const double of_logarithm = probability > 0 ? 0x1p-24 * -std::log(probability) : 0.0;
  return 0.51 * unit_of(type, exact) + std::fmax(1e-6, of_logarithm) * row.output.terms[j] + unknown;
}

}  // namespace row_check

#endif
