// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_COMPARE_HPP
#define VOCABLOSS_TEST_COMPARE_HPP

/// \file
/// Comparisons that NaN does not slip through: a difference has to lie *within* a tolerance, which NaN never does.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace test {

inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// NaN is right only where NaN is expected, an infinity only where the same infinity is.
inline bool within(double actual, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) return actual == expected;
  return std::fabs(actual - expected) <= tolerance;
}

inline ::testing::AssertionResult near(double actual, double expected, double tolerance) {
  if (within(actual, expected, tolerance)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "got " << actual << ", expected " << expected << ", off by "
                                       << actual - expected << ", allowed " << tolerance;
}

/// Every value within `absolute + relative * |expected|`.
inline ::testing::AssertionResult all_near(const std::vector<double>& actual, const std::vector<double>& expected,
                                           double absolute, double relative) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << "got " << actual.size() << " values, expected " << expected.size();
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double magnitude = std::isfinite(expected[i]) ? std::fabs(expected[i]) : 0;
    const auto result = near(actual[i], expected[i], absolute + relative * magnitude);
    if (!result) return ::testing::AssertionFailure() << "at " << i << ": " << result.message();
  }
  return ::testing::AssertionSuccess();
}

/// Two-norm of the difference of two rows, at most `tolerance * max(norm of expected, floor)`. Elements that are not
/// finite must be the same.
inline ::testing::AssertionResult row_near(const double* actual, const double* expected, std::size_t columns,
                                           double tolerance, double floor) {
  double difference = 0;
  double norm = 0;
  for (std::size_t j = 0; j < columns; ++j) {
    if (!std::isfinite(expected[j]) || !std::isfinite(actual[j])) {
      if (within(actual[j], expected[j], 0)) continue;
      return ::testing::AssertionFailure() << "column " << j << ": got " << actual[j] << ", expected " << expected[j];
    }
    difference += (actual[j] - expected[j]) * (actual[j] - expected[j]);
    norm += expected[j] * expected[j];
  }
  const double allowed = tolerance * std::fmax(std::sqrt(norm), floor);
  if (std::sqrt(difference) <= allowed) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "the row is off by " << std::sqrt(difference) << " in the 2-norm, allowed "
                                       << allowed;
}

/// The same bits, but for the payload of NaN.
inline ::testing::AssertionResult same_values(const std::vector<double>& actual, const std::vector<double>& expected) {
  return all_near(actual, expected, 0, 0);
}

}  // namespace test

#endif
