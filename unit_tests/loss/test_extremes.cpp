// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Extreme rows in float, at the level of the algebra: infinities, NaN, the largest halves and floats, large common
// offsets, certain predictions. Values are those of the reported faults where there is one (test names carry their
// numbers).

#include <vocabloss/types.hpp>

#include "support/algebra.hpp"
#include "support/compare.hpp"
#include "support/loss_names.hpp"
#include "support/shapes.hpp"

namespace {

using namespace test;
using vocabloss::LossOptions;

constexpr float inf = HUGE_VALF;
using Row = AlgebraRow<float>;

template <class Tag>
RowResult<float> of(const Row& row, const LossOptions& options = {}) {
  return evaluate<2>(typename Tag::template Loss<float>(options), row);
}

TEST(Extremes, A28_EntropyOfAnImpossibleColumn) {
  EXPECT_TRUE(all_near(of<Entropy>({{0, -inf}, {}}).losses, {0}, 1e-7, 0));
  EXPECT_TRUE(all_near(of<Entropy>({{0, -inf}, {}}).gradient, {0, 0}, 1e-7, 0));
  EXPECT_TRUE(all_near(of<Entropy>({{0, 0, -inf}, {}}).losses, {0.693147}, 1e-6, 0));
  EXPECT_TRUE(all_near(of<Entropy>({{65504, -65504}, {}}).losses, {0}, 1e-7, 0));
  EXPECT_TRUE(all_near(of<LogProbEntropy>({{0, 0, -inf}, {}, 1}).losses, {-0.693147, 0.693147}, 1e-6, 0));
}

template <class Tag>
void expect_common_support_only() {
  const auto masked = of<Tag>({{1, -inf, 2, -inf}, {0.5f, -inf, 3, -inf}});
  const auto without = of<Tag>({{1, 2}, {0.5f, 3}});
  EXPECT_TRUE(all_near(masked.losses, without.losses, 1e-6, 0));
  EXPECT_TRUE(all_near(masked.gradient, {without.gradient[0], 0, without.gradient[1], 0}, 1e-6, 0));
}
TEST(Extremes, A30_BothDistributionsRuleOutAColumn) {
  expect_common_support_only<ForwardKl>();
  expect_common_support_only<ReverseKl>();
  expect_common_support_only<SoftCrossEntropy>();
  expect_common_support_only<Jsd>();
}

TEST(Extremes, A31_ZeroTargetProbability) {
  EXPECT_TRUE(all_near(of<SoftCrossEntropyProbabilities>({{-inf, 0}, {0, 1}}).losses, {0}, 1e-7, 0));
  const std::vector<double> gradient = {.135989, -.175792, .009460, .030343};
  const double entropy_of_target = -.4 * std::log(.4) - .6 * std::log(.6);
  const auto soft = of<SoftCrossEntropyProbabilities>({{.5, 1, 2, -1}, {0, .4f, .6f, 0}});
  EXPECT_TRUE(all_near(soft.losses, {0.222170 + entropy_of_target}, 1e-6, 0));
  EXPECT_TRUE(all_near(soft.gradient, gradient, 1e-6, 0));
  const auto kl = of<ForwardKl>({{.5, 1, 2, -1}, {-inf, std::log(.4f), std::log(.6f), -inf}});
  EXPECT_TRUE(all_near(kl.losses, {0.222170}, 1e-6, 0));
  EXPECT_TRUE(all_near(kl.gradient, gradient, 1e-6, 0));
}

TEST(Extremes, A34_DisjointDistributions) {
  for (const float far : {200.0f, 1e4f, 1e30f, 1.5e38f, inf}) {
    const float low = far == inf ? -inf : 0;
    const float high = far == inf ? 0 : far;
    const auto result = of<Jsd>({{high, low}, {low, high}});
    EXPECT_TRUE(all_near(result.losses, {0.693147}, 1e-6, 0)) << far;
    EXPECT_TRUE(all_near(result.gradient, {0, 0}, 1e-6, 0)) << far;
  }
}

TEST(Extremes, A35_WhichMixtureWeightIsWhich) {
  const Row row{{1, 0, -2}, {0, .5f, 1}};
  double p[3], q[3], sum_p = 0, sum_q = 0;
  for (int j = 0; j < 3; ++j) sum_p += std::exp(double(row.x[j])), sum_q += std::exp(double(row.t[j]));
  for (int j = 0; j < 3; ++j) p[j] = std::exp(double(row.x[j])) / sum_p, q[j] = std::exp(double(row.t[j])) / sum_q;
  for (const double beta : {.1, .5, .9}) {
    double expected = 0;
    for (int j = 0; j < 3; ++j) {
      const double m = (1 - beta) * p[j] + beta * q[j];
      expected += beta * q[j] * std::log(q[j] / m) + (1 - beta) * p[j] * std::log(p[j] / m);
    }
    LossOptions options;
    options.jsd_beta = beta;
    EXPECT_TRUE(all_near(of<Jsd>(row, options).losses, {expected}, 1e-6, 0)) << beta;
  }
}

TEST(Extremes, A38_LargeMagnitudes) {
  for (const float v : {1.0f, 1e4f, 1e6f, 1e8f, 3e38f, -3e38f}) {
    const auto result = of<CrossEntropy>({{v, v}, {}, 0});
    EXPECT_TRUE(all_near(result.losses, {0.693147}, 1e-6, 0)) << v;
    EXPECT_TRUE(all_near(result.gradient, {-.5, .5}, 1e-6, 0)) << v;
  }
  for (const float offset : {0.0f, 1e4f, 1e6f, 1e8f}) {
    const float a = 2 + offset, b = -1 + offset;
    const double gap = double(a) - double(b);
    EXPECT_TRUE(all_near(of<CrossEntropy>({{a, b}, {}, 0}).losses, {std::log1p(std::exp(-gap))}, 1e-6, 0)) << offset;
  }
  EXPECT_TRUE(all_near(of<CrossEntropy>({{2, -1}, {}, 0}).losses, {0.0485874}, 1e-6, 0));
}

template <class Tag>
struct EveryLoss : ::testing::Test {
  using Loss = typename Tag::template Loss<float>;
  static constexpr bool compares_logits = Loss::streams == 2 && Loss::teacher_is_logits;
  static Row row() {
    Row row{{1.25f, -2, .5f, 3, 0, -1.75f, 2, .25f}, {}, 2};
    if (Loss::streams == 2) row.t = {.25f, .125f, 0, .25f, .125f, 0, .125f, .125f};
    return row;
  }
};
TYPED_TEST_SUITE(EveryLoss, AllLosses, LossNames);

/// Offsets that floats hold exactly beside quarters: the digits of the difference are all there, so nothing may be
/// lost.
TYPED_TEST(EveryLoss, A38_ACommonOffsetChangesNothing) {
  if (std::is_same_v<TypeParam, ZLoss>) GTEST_SKIP() << "z-loss is about the offset";
  const auto plain = of<TypeParam>(this->row());
  for (const float offset : {256.0f, 65536.0f, 1048576.0f, -1048576.0f}) {
    Row moved = this->row();
    for (float& value : moved.x) value += offset;
    if (this->compares_logits) {
      for (float& value : moved.t) value -= offset;  // to the other side: each stream has a maximum of its own
    }
    EXPECT_TRUE(all_near(of<TypeParam>(moved).losses, plain.losses, 1e-6, 0)) << offset;
    EXPECT_TRUE(all_near(of<TypeParam>(moved).gradient, plain.gradient, 1e-6, 0)) << offset;
  }
}

TYPED_TEST(EveryLoss, A39_NanAndPlusInfinityPoison) {
  for (const float bad : {float(not_a_number), inf}) {
    for (const int stream : {0, 1}) {
      for (const int column : {0, 2, 7}) {
        Row row = this->row();
        if (stream == 1 && row.t.empty()) continue;
        (stream ? row.t : row.x)[column] = bad;
        const auto result = of<TypeParam>(row);
        for (const double loss : result.losses) EXPECT_TRUE(std::isnan(loss)) << bad << " in stream " << stream;
        for (const double value : result.gradient) EXPECT_TRUE(std::isnan(value)) << bad << " in stream " << stream;
      }
    }
  }
}

TYPED_TEST(EveryLoss, A39_ARowWithNoFiniteLogitIsPoisoned) {
  Row row = this->row();
  row.x.assign(8, -inf);
  auto result = of<TypeParam>(row);
  for (const double loss : result.losses) EXPECT_TRUE(std::isnan(loss));
  for (const double value : result.gradient) EXPECT_TRUE(std::isnan(value));
  if (!this->compares_logits) return;
  row = this->row();
  row.t.assign(8, -inf);
  result = of<TypeParam>(row);
  for (const double loss : result.losses) EXPECT_TRUE(std::isnan(loss));
  for (const double value : result.gradient) EXPECT_TRUE(std::isnan(value));
}

TYPED_TEST(EveryLoss, A39_MinusInfinityIsAnOrdinaryLogit) {
  Row row = this->row();
  row.x[5] = -inf;
  if (this->compares_logits) row.t[5] = -inf;
  for (const double loss : of<TypeParam>(row).losses) EXPECT_TRUE(std::isfinite(loss));
  for (const double value : of<TypeParam>(row).gradient) EXPECT_TRUE(std::isfinite(value));
}

TEST(Extremes, A40_CertainLabelsKeepTheirGradient) {
  constexpr int vocabulary = 32000;
  std::vector<int> cuts;  // as tiles do: a float sum of 2000 small terms beside 1 would lose their digits
  for (int cut = 1000; cut < vocabulary; cut += 1000) cuts.push_back(cut);
  for (const double p : {.9, .99, .999, .9999}) {
    const float gap = static_cast<float>(std::log(p / (1 - p) * (vocabulary - 1)));
    Row row{std::vector<float>(vocabulary, 0.0f), {}, 17};
    row.x[17] = gap;
    const double others = (vocabulary - 1) * std::exp(-double(gap));
    const auto result = evaluate<16, 16>(loss::CrossEntropy<float>(LossOptions{}), row, {1, 1}, cuts);
    EXPECT_TRUE(near(result.losses[0], std::log1p(others), 1e-5)) << p;
    EXPECT_TRUE(near(result.gradient[17], -others / (1 + others), 1e-5)) << p;  // (p_y - 1) in float
    EXPECT_TRUE(near(result.gradient[16], std::exp(-double(gap)) / (1 + others), 2e-5 * std::exp(-double(gap)))) << p;
  }
}

TEST(Extremes, A42_SumsOfManyEqualTermsDoNotStick) {
  EXPECT_TRUE(all_near(of<CrossEntropy>({std::vector<float>(512, 0.0f), {}, 0}).losses, {6.238325}, 1e-6, 0));
  EXPECT_TRUE(all_near(of<Entropy>({std::vector<float>(512, 0.0f), {}}).losses, {6.238325}, 1e-6, 0));
  EXPECT_TRUE(all_near(of<ZLoss>({std::vector<float>(512, 0.0f), {}}).losses, {6.238325 * 6.238325}, 4e-5, 0));
  EXPECT_TRUE(all_near(of<CrossEntropy>({std::vector<float>(1 << 20, -3.0f), {}, 9}).losses, {13.862944}, 1e-5, 0));
}

/// A lane that holds the maximum, worth 1, and many columns each of which is too small to be added to it on its own.
TEST(Extremes, A42_SmallTermsDoNotDrownInALargeOne) {
  Row logits{{0}, {0}}, probabilities{{0}, {0.99f}};
  AlgebraRow<double> exact_logits{{0}, {0}}, exact_probabilities{{0}, {0.99f}};
  for (int j = 1; j < 2048; ++j) {
    const float small = -17 + 0.5f * std::sin(static_cast<float>(j)), other = -17 + 0.5f * std::cos(2.0f * j);
    logits.x.push_back(other), logits.t.push_back(small);
    probabilities.x.push_back(other), probabilities.t.push_back(std::exp(small));
    exact_logits.x.push_back(other), exact_logits.t.push_back(small);
    exact_probabilities.x.push_back(other), exact_probabilities.t.push_back(probabilities.t.back());
  }
  const auto divergence = evaluate<8>(ReverseKl::Loss<float>(LossOptions{}), logits);
  EXPECT_TRUE(
      all_near(divergence.losses, evaluate(ReverseKl::Loss<double>(LossOptions{}), exact_logits).losses, 3e-6, 0));
  const auto soft = evaluate<8>(SoftCrossEntropyProbabilities::Loss<float>(LossOptions{}), probabilities);
  const auto exact = evaluate(SoftCrossEntropyProbabilities::Loss<double>(LossOptions{}), exact_probabilities);
  EXPECT_TRUE(all_near(soft.losses, exact.losses, 3e-6, 0));
  EXPECT_TRUE(all_near(soft.gradient, exact.gradient, 1e-6, 0));
}

TEST(Extremes, A55_TargetsThatDoNotSumToOne) {
  const auto result = of<SoftCrossEntropyProbabilities>({{0, 0}, {.5f, .25f}});
  EXPECT_TRUE(all_near(result.losses, {.519860}, 1e-6, 0));
  EXPECT_TRUE(all_near(result.gradient, {-.125, .125}, 1e-7, 0));
}

TEST(Extremes, AnImpossibleLabelIsInfinitelyWrong) {
  const Row row{{0, -inf, 0}, {}, 1};
  EXPECT_EQ(of<CrossEntropy>(row).losses[0], infinity);
  EXPECT_EQ(of<LogProb>(row).losses[0], -infinity);
  EXPECT_TRUE(all_near(of<CrossEntropy>(row).gradient, {.5, -1, .5}, 1e-7, 0));
  EXPECT_TRUE(all_near(of<LogProb>(row).gradient, {-.5, 1, -.5}, 1e-7, 0));
}

TEST(Extremes, ATargetThatTheStudentRulesOut) {
  for (const auto& result : {of<ForwardKl>({{0, -inf, 0}, {0, 0, 0}}), of<SoftCrossEntropy>({{0, -inf, 0}, {0, 0, 0}}),
                             of<SoftCrossEntropyProbabilities>({{0, -inf, 0}, {1 / 3.f, 1 / 3.f, 1 / 3.f}})}) {
    EXPECT_EQ(result.losses[0], infinity);
    EXPECT_TRUE(all_near(result.gradient, {1 / 6., -1 / 3., 1 / 6.}, 1e-6, 0));
  }
  const auto reverse = of<ReverseKl>({{0, -inf, 0}, {0, 0, 0}});
  EXPECT_TRUE(all_near(reverse.losses, {std::log(1.5)}, 1e-6, 0));
}

TEST(Extremes, AStudentWhereTheTeacherIsZero) {
  const auto reverse = of<ReverseKl>({{0, 0, 0}, {0, -inf, 0}});
  EXPECT_EQ(reverse.losses[0], infinity);
  for (const double value : reverse.gradient) EXPECT_TRUE(std::isnan(value));
  const auto jsd = of<Jsd>({{0, 0, 0}, {0, -inf, 0}});
  EXPECT_TRUE(std::isfinite(jsd.losses[0]));
  for (const double value : jsd.gradient) EXPECT_TRUE(std::isfinite(value));
}

/// Teachers that rule columns out with a large finite number: the loss is large, and both it and its gradient finite.
TEST(Extremes, AFiniteStandInForMinusInfinity) {
  for (const float low : {-1e9f, -1e30f, -1e32f, -1e37f, -2e38f}) {
    const auto reverse = of<ReverseKl>({{0, 0}, {0, low}});
    EXPECT_TRUE(all_near(reverse.losses, {-.5 * low}, 2, 1e-6)) << low;
    EXPECT_TRUE(all_near(reverse.gradient, {.25 * low, -.25 * low}, 2, 1e-6)) << low;
    EXPECT_TRUE(all_near(of<ForwardKl>({{0, 0}, {0, low}}).losses, {0.693147}, 1e-6, 0)) << low;
    EXPECT_TRUE(all_near(of<CrossEntropy>({{0, low}, {}, 1}).losses, {-double(low)}, 1e-6, 1e-6)) << low;
  }
}

}  // namespace
