// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_TOLERANCE_HPP
#define VOCABLOSS_TEST_TOLERANCE_HPP

/// \file
/// How far a path may be from the reference: the limits that `entropy_sweep --check` states too.

#include <vocabloss/types.hpp>

#include <algorithm>
#include <cmath>

namespace test {

using vocabloss::DataType;

struct Tolerance {
  double epsilon;       ///< of what sums are kept in
  double loss;          ///< times max(1, |loss|)
  double gradient_row;  ///< times the 2-norm of the row
  double gradient;      ///< of one element, times |element|
  double smallest;      ///< probabilities below it may be 0, times the upstream gradient
};

/// The stored type of the logits decides what sums are kept in. How the gradient is stored plays no part: tests compare
/// it up to exactly one rounding.
constexpr Tolerance tolerance_of(DataType logits) {
  if (logits == DataType::fp64) return {0x1p-52, 1e-12, 1e-12, 1e-11, 1e-300};
  return {0x1p-23, 1e-5, 1e-5, 2e-5, 4e-38};
}

/// Half of the distance between stored numbers around `magnitude`: what one rounding may lose.
inline double half_step(DataType type, double magnitude) {
  struct Format {
    int fraction_bits, smallest_exponent;
  };
  constexpr Format formats[] = {{7, -126}, {10, -14}, {23, -126}, {52, -1022}};
  const Format format = formats[static_cast<int>(type)];
  const int exponent = magnitude > 0 ? std::ilogb(magnitude) : format.smallest_exponent;
  return std::ldexp(0.5, std::max(exponent, format.smallest_exponent) - format.fraction_bits);
}

}  // namespace test

#endif
