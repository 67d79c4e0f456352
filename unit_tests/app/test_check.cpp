// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The measures of --check: what passes, what does not, and that NaN never slips through.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.hpp"

namespace {

using namespace entropy_sweep;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

TEST(Check, LossErrorIsRelativeAboveOne) {
  EXPECT_DOUBLE_EQ(loss_error(0.25, 0.5), 0.25);
  EXPECT_DOUBLE_EQ(loss_error(99, 100), 0.01);
  EXPECT_DOUBLE_EQ(loss_error(-99, -100), 0.01);
}

TEST(Check, NanAndInfinityPassOnlyWhereTheReferenceHasThem) {
  EXPECT_EQ(loss_error(nan, nan), 0);
  EXPECT_EQ(loss_error(inf, inf), 0);
  EXPECT_EQ(loss_error(-inf, -inf), 0);
  EXPECT_EQ(loss_error(nan, 1), inf);
  EXPECT_EQ(loss_error(1, nan), inf);
  EXPECT_EQ(loss_error(inf, 1), inf);
  EXPECT_EQ(loss_error(1, inf), inf);
  EXPECT_EQ(loss_error(inf, -inf), inf);
  EXPECT_EQ(loss_error(nan, inf), inf);
  EXPECT_FALSE(failure(ValueType::bf16, nan, 0.0).empty());
  EXPECT_FALSE(failure(ValueType::bf16, 0.0, nan).empty());
}

TEST(Check, GradientErrorIsOverTheNormOfTheRow) {
  const std::vector<double> reference{3, -4};
  EXPECT_DOUBLE_EQ(gradient_error(std::vector<double>{3, -4}, reference), 0);
  EXPECT_DOUBLE_EQ(gradient_error(std::vector<double>{3, -4.5}, reference), 0.1);
  EXPECT_EQ(gradient_error(std::vector<double>{3, nan}, reference), inf);
  EXPECT_EQ(gradient_error(std::vector<double>{nan, nan}, std::vector<double>{nan, nan}), 0);
  EXPECT_EQ(gradient_error(std::vector<double>{0, nan}, std::vector<double>{nan, nan}), inf);
  EXPECT_DOUBLE_EQ(gradient_error(std::vector<double>{1e-9}, std::vector<double>{0}), 1e-3);  // floor of the norm: 1e-6
  EXPECT_EQ(gradient_error({}, {}), 0);
}

TEST(Check, LimitsAreThoseOfTheContract) {
  EXPECT_EQ(failure(ValueType::bf16, 1e-5, 1e-3), "");
  EXPECT_EQ(failure(ValueType::fp32, 1e-5, 1e-5), "");
  EXPECT_EQ(failure(ValueType::fp64, 1e-12, 1e-12), "");
  EXPECT_NE(failure(ValueType::bf16, 1.1e-5, 0.0).find("loss_error"), std::string::npos);
  EXPECT_NE(failure(ValueType::fp16, 0.0, 1.1e-3).find("grad_error"), std::string::npos);
  EXPECT_NE(failure(ValueType::fp32, 0.0, 1.1e-5), "");
  EXPECT_NE(failure(ValueType::fp64, 1.1e-12, std::nullopt), "");
  EXPECT_EQ(failure(ValueType::fp64, std::nullopt, std::nullopt), "");
}

TEST(Check, LargeProblemsAreCheckedInThirtyTwoRows) {
  EXPECT_TRUE(rows_to_check(0, 5).empty());
  EXPECT_EQ(rows_to_check(3, 5), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(rows_to_check(512, 32768).size(), 512u);  // exactly 2^24
  for (const std::int64_t rows : {std::int64_t{513}, std::int64_t{4096}, std::int64_t{1} << 40, INT64_MAX}) {
    const auto chosen = rows_to_check(rows, 32768);
    ASSERT_EQ(chosen.size(), 32u);
    EXPECT_EQ(chosen.front(), 0);
    EXPECT_EQ(chosen.back(), rows - 1);
    for (std::size_t k = 1; k < chosen.size(); ++k) EXPECT_GT(chosen[k], chosen[k - 1]);
  }
  EXPECT_EQ(rows_to_check(20, std::int64_t{1} << 30).size(), 20u);
}

TEST(Check, RoundingHappensOnce) {
  EXPECT_EQ(rounded_to(ValueType::fp64, 0.1), 0.1);
  EXPECT_EQ(rounded_to(ValueType::fp32, 0.1), static_cast<double>(0.1f));
  EXPECT_EQ(rounded_to(ValueType::bf16, 1.0), 1.0);
  // Just above the tie between 1 and 1 + 2^-7: by way of float it would look like the tie and go down to 1.
  EXPECT_EQ(rounded_to(ValueType::bf16, 1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40)), 1 + std::ldexp(1.0, -7));
  EXPECT_EQ(rounded_to(ValueType::bf16, 1 + std::ldexp(1.0, -8) - std::ldexp(1.0, -40)), 1.0);
  EXPECT_EQ(rounded_to(ValueType::bf16, -(1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40))), -1 - std::ldexp(1.0, -7));
  EXPECT_EQ(rounded_to(ValueType::fp16, 1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)), 1 + std::ldexp(1.0, -10));
  EXPECT_TRUE(std::isnan(rounded_to(ValueType::bf16, nan)));
  EXPECT_EQ(rounded_to(ValueType::fp16, 1e6), inf);
  EXPECT_EQ(rounded_to(ValueType::fp16, -inf), -inf);
}

TEST(Check, TiesMayGoEitherWay) {
  const double step = std::ldexp(1.0, -7), tie = 1 + step / 2;  // between bf16's 1 and its next
  EXPECT_EQ(nearest_to(ValueType::bf16, tie * (1 - 1e-7), 1, 1.0), 1.0);
  EXPECT_EQ(nearest_to(ValueType::bf16, tie * (1 - 1e-7), 1, 1 + step), 1 + step);
  EXPECT_EQ(nearest_to(ValueType::bf16, -tie * (1 - 1e-7), 1, -1 - step), -1 - step);
  EXPECT_EQ(nearest_to(ValueType::bf16, tie * (1 - 1e-3), 1, 1 + step), 1.0);          // no float error: a wrong step
  EXPECT_EQ(nearest_to(ValueType::bf16, tie * (1 - 1e-3), 1000, 1 + step), 1 + step);  // but of a thousand less 999
  EXPECT_EQ(nearest_to(ValueType::bf16, tie, 1, 1 + 2 * step), 1.0);
  EXPECT_EQ(nearest_to(ValueType::fp16, tie, 1, 1 + step), tie);  // fp16 has it
  EXPECT_EQ(nearest_to(ValueType::fp32, 1.0, 1, 1 + std::ldexp(1.0, -23)), 1.0);
  EXPECT_TRUE(std::isnan(nearest_to(ValueType::bf16, nan, 1, 1.0)));
  EXPECT_EQ(nearest_to(ValueType::bf16, 1.0, 1, nan), 1.0);
  EXPECT_EQ(nearest_to(ValueType::bf16, inf, 1, 1.0), inf);
}

}  // namespace
