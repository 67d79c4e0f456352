// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Faults that users of such kernels reported: infinities, large values, precision, infinite and unnormalised targets,
// through whole calls (the algebra's own extremes: loss/test_extremes.cpp). Names carry the reports' ids.

#include <cmath>

#include "support/check.hpp"
#include "support/compare.hpp"

namespace {

using namespace test;

Call one_row(std::vector<double> x, std::vector<double> t = {}, std::vector<std::int64_t> labels = {}) {
  Call call;
  call.rows = 1;
  call.columns = static_cast<std::int64_t>(x.size());
  call.x = std::move(x);
  call.t = std::move(t);
  call.labels = std::move(labels);
  return call;
}

class Faults : public ::testing::TestWithParam<Path> {
 protected:
  Outputs run(const char* loss, Call call) {
    call.path = GetParam();
    return check(loss_named(loss), call);
  }
  void expect_loss(const char* loss, const Call& call, double expected, double tolerance = 1e-6) {
    const Outputs outputs = run(loss, call);
    if (!outputs.refused.empty()) return;
    if (GetParam() == Path::naive) tolerance *= 20;  // sums one by one
    EXPECT_TRUE(near(outputs.losses[0][0], expected, tolerance)) << loss;
  }
};

TEST_P(Faults, A28_EntropyWithImpossibleColumns) {
  expect_loss("entropy", one_row({0, -infinity}), 0);
  expect_loss("entropy", one_row({0, 0, -infinity}), 0.693147);
  Call half = one_row({65504, -65504});
  half.store_as(DataType::fp16);
  expect_loss("entropy", half, 0);
}

TEST_P(Faults, A30_BothRuleOutTheSameColumns) {
  const Call call = one_row({1, -infinity, 2, -infinity}, {0.5, -infinity, 3, -infinity});
  const Call without = one_row({1, 2}, {0.5, 3});
  for (const char* loss : {"forward_kl", "reverse_kl", "jsd", "soft_cross_entropy"}) {
    const Outputs expected = run(loss, without);
    if (!expected.refused.empty()) return;
    expect_loss(loss, call, expected.losses[0][0]);
  }
}

TEST_P(Faults, A31_ZeroTargetProbability) {
  expect_loss("soft_cross_entropy_probabilities", one_row({-infinity, 0}, {0, 1}), 0);
  const Call call = one_row({.5, 1, 2, -1}, {-infinity, std::log(.4), std::log(.6), -infinity});
  expect_loss("forward_kl", call, 0.222170);
  const Outputs outputs = run("forward_kl", call);
  if (outputs.refused.empty()) {
    EXPECT_TRUE(all_near(outputs.gradient, {.135989, -.175792, .009460, .030343}, 1e-6, 0));
  }
}

TEST_P(Faults, A32_MaskedRowsHoldSentinels) {
  Call call;
  call.rows = 2;
  call.columns = 3;
  call.x = {1, 2, 3, -infinity, -infinity, -infinity};
  call.mask = {1, 0};
  const Outputs outputs = run("entropy", call);
  if (!outputs.refused.empty()) return;
  EXPECT_EQ(outputs.losses[0][1], 0);
  EXPECT_EQ(outputs.sum[0], outputs.losses[0][0]);
  for (int j = 3; j < 6; ++j) EXPECT_EQ(outputs.gradient[j], 0);
}

TEST_P(Faults, A34_DisjointDistributions) {
  const Call call = one_row({200, 0}, {0, 200});
  expect_loss("jsd", call, 0.693147);
  const Outputs outputs = run("jsd", call);
  if (outputs.refused.empty()) {
    EXPECT_TRUE(all_near(outputs.gradient, {0, 0}, 1e-6, 0));
  }
}

TEST_P(Faults, A35_JsdAtItsEndsIsForwardAndReverseKl) {
  const LossEntry& jsd = loss_named("jsd");
  for (const auto& [beta, same_as] : {std::pair{0.0, "forward_kl"}, std::pair{1.0, "reverse_kl"}}) {
    Call call = ordinary_call(jsd, 3, 21);
    call.options.jsd_beta = beta;
    const Outputs outputs = run("jsd", call);
    if (!outputs.refused.empty()) return;
    expect_same_bits(outputs, run(same_as, call));
  }
}

TEST_P(Faults, A38_LargeMagnitudes) {
  for (const double v : {1.0, 1e4, 1e6, 1e8}) expect_loss("cross_entropy", one_row({v, v}, {}, {0}), 0.693147);
  for (const double offset : {0.0, 1e4, 1e6}) {
    expect_loss("cross_entropy", one_row({2 + offset, -1 + offset}, {}, {0}), 0.0485874);
  }
}

TEST_P(Faults, A39_NanPoisonsItsRowAlone) {
  Call call;
  call.rows = 4;
  call.columns = 2;
  call.x = {1, -infinity, -infinity, -infinity, 0, not_a_number, 2, 2};
  call.labels = {0, 0, 0, 0};
  const Outputs outputs = run("cross_entropy", call);
  if (!outputs.refused.empty()) return;
  EXPECT_EQ(outputs.losses[0][0], 0);
  EXPECT_TRUE(std::isnan(outputs.losses[0][1]));
  EXPECT_TRUE(std::isnan(outputs.losses[0][2]));
  EXPECT_NEAR(outputs.losses[0][3], 0.693147, 1e-6);
  EXPECT_EQ(outputs.invalid_labels, 0);
}

/// The label's gradient is formed in float and rounded once, in place and out of place, however certain the row is.
TEST_P(Faults, A40_CertainLabelsInSixteenBits) {
  if (GetParam() == Path::naive) GTEST_SKIP() << "sums in float, one by one, as the comparator does";
  constexpr std::int64_t columns = 32000;
  for (const double p : {.9, .99, .999}) {
    Call call = one_row(std::vector<double>(columns, 0.0), {}, {17});
    call.x[17] = std::log(p / (1 - p) * (columns - 1));
    call.store_as(DataType::bf16);
    for (const bool in_place : {false, true}) {
      call.in_place = in_place;
      const Outputs outputs = run("cross_entropy", call);
      if (!outputs.refused.empty()) return;
      const double others = (columns - 1) * std::exp(-round_to(DataType::bf16, call.x[17]));
      const double exact = -others / (1 + others);
      EXPECT_NEAR(outputs.gradient[17], exact, 0x1p-8 * std::fabs(exact) + 1e-5) << p;
    }
  }
}

TEST_P(Faults, A41_SumsOfManyHalfPrecisionLosses) {
  Call call = ordinary_call(loss_named("cross_entropy"), 100, 3);
  call.rows = 10000;
  call.columns = 500;
  call.x.assign(call.rows * call.columns, 0.0);
  call.labels.assign(call.rows, 3);
  call.store_as(DataType::fp16);
  call.path = GetParam();
  call.sequence = Sequence::forward;
  const Outputs outputs = loss_named("cross_entropy").run(call);
  if (!outputs.refused.empty()) return;
  EXPECT_NEAR(outputs.sum[0], 10000 * std::log(500), 0.5);
}

TEST_P(Faults, A42_LossesAreNotKeptInSixteenBits) {
  Call call = one_row(std::vector<double>(512, 0.0), {}, {5});
  call.store_as(DataType::bf16);
  expect_loss("cross_entropy", call, 6.238325);
  expect_loss("entropy", call, 6.238325);
}

TEST_P(Faults, A44_TheGradientHasTheAskedType) {
  for (const DataType type : {DataType::fp16, DataType::fp32}) {
    Call call = ordinary_call(loss_named("cross_entropy"), 2, 100);
    call.store_as(type);
    const Outputs outputs = run("cross_entropy", call);
    if (!outputs.refused.empty()) return;
    bool beyond_bf16 = false;
    for (const double value : outputs.gradient) beyond_bf16 |= round_to(DataType::bf16, value) != value;
    EXPECT_TRUE(beyond_bf16);
  }
}

TEST_P(Faults, A55_TargetsThatDoNotSumToOne) {
  const Call call = one_row({0, 0}, {.5, .25});
  expect_loss("soft_cross_entropy_probabilities", call, .519860);
  const Outputs outputs = run("soft_cross_entropy_probabilities", call);
  if (outputs.refused.empty()) {
    EXPECT_TRUE(all_near(outputs.gradient, {-.125, .125}, 1e-7, 0));
  }
}

/// Temperature divides both streams, reaches the gradient, and brings T^2 only when asked.
TEST_P(Faults, A57_TemperatureInLossAndGradient) {
  Call call = ordinary_call(loss_named("forward_kl"), 2, 30);
  call.options.temperature = 2;
  const Outputs plain = run("forward_kl", call);
  call.options.temperature_squared = true;
  const Outputs squared = run("forward_kl", call);
  if (!plain.refused.empty()) return;
  EXPECT_NEAR(squared.losses[0][0], 4 * plain.losses[0][0], 1e-5);
  EXPECT_NEAR(squared.gradient[0], 4 * plain.gradient[0], 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Paths, Faults, ::testing::ValuesIn(tested_paths),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
