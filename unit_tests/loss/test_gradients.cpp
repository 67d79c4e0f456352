// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The gradient is the derivative of the value: central differences in double, for the algebra and for the textbook
// reference, at several scales and temperatures. The two must also agree with each other.

#include <vocabloss/loss/reference.hpp>

#include "support/algebra.hpp"
#include "support/compare.hpp"
#include "support/loss_names.hpp"
#include "support/shapes.hpp"

namespace {

using namespace test;
using vocabloss::LossOptions;

constexpr int columns = 23;
const std::vector<double> upstream = {0.7, -1.3};

template <class Loss>
AlgebraRow<double> some_row(unsigned seed) {
  AlgebraRow<double> row{logits(columns, seed, 1.5), {}, 7};
  if (Loss::streams == 2) {
    row.t = Loss::teacher_is_logits ? teacher_for(row.x, seed + 1) : probabilities(1, columns, seed + 1);
  }
  return row;
}

template <class Loss>
vocabloss::reference::RowOutput textbook(const Loss& loss, const AlgebraRow<double>& row) {
  return vocabloss::reference::evaluate(
      loss, vocabloss::reference::RowInput{row.x, row.t, row.label, {upstream[0], upstream[1]}});
}

template <class Loss>
double weighted_value(const Loss& loss, const AlgebraRow<double>& row) {
  const auto statistics = statistics_of<1, 1>(loss, row);
  double total = 0;
  for (int k = 0; k < Loss::outputs; ++k) total += upstream[k] * loss.value(statistics, k);
  return total;
}

std::vector<LossOptions> option_sets() {
  LossOptions plain, scaled, hot, skewed;
  scaled.logit_scale = 1.7;
  scaled.teacher_scale = 0.4;
  hot.temperature = 2.5;
  hot.logit_scale = 0.8;
  skewed.jsd_beta = 0.15;
  skewed.temperature = 0.6;
  return {plain, scaled, hot, skewed};
}

template <class Tag>
struct Gradients : ::testing::Test {};
TYPED_TEST_SUITE(Gradients, AllLosses, LossNames);

TYPED_TEST(Gradients, AreTheDerivative) {
  using Loss = typename TypeParam::template Loss<double>;
  for (const LossOptions& options : option_sets()) {
    const Loss loss(options);
    const AlgebraRow<double> row = some_row<Loss>(3);
    const auto gradient = evaluate<4>(loss, row, upstream).gradient;
    for (int j = 0; j < columns; ++j) {
      const double step = 1e-4;
      AlgebraRow<double> above = row, below = row;
      above.x[j] += step;
      below.x[j] -= step;
      const double difference = (weighted_value(loss, above) - weighted_value(loss, below)) / (2 * step);
      EXPECT_TRUE(near(gradient[j], difference, 2e-7 * (1 + std::fabs(difference)))) << "column " << j;
    }
  }
}

TYPED_TEST(Gradients, AgreeWithTheTextbook) {
  using Loss = typename TypeParam::template Loss<double>;
  for (const LossOptions& options : option_sets()) {
    const Loss loss(options);
    const AlgebraRow<double> row = some_row<Loss>(4);
    const auto expected = textbook(loss, row);
    const auto actual = evaluate<4>(loss, row, upstream, {5, 6});
    for (int k = 0; k < Loss::outputs; ++k) EXPECT_TRUE(near(actual.losses[k], expected.losses[k], 1e-12));
    EXPECT_TRUE(all_near(actual.gradient, expected.gradient, 1e-13, 1e-12));
  }
}

/// Shifting all logits changes no loss but z-loss, so the gradient sums to 0.
TYPED_TEST(Gradients, SumToZeroOverTheVocabulary) {
  using Loss = typename TypeParam::template Loss<double>;
  if (std::is_same_v<TypeParam, ZLoss>) GTEST_SKIP() << "z-loss is about the shift";
  const auto gradient = evaluate<4>(Loss(LossOptions{}), some_row<Loss>(5), upstream).gradient;
  double sum = 0;
  for (const double value : gradient) sum += value;
  EXPECT_NEAR(sum, 0, 1e-13);
}

TYPED_TEST(Gradients, AreLinearInTheUpstream) {
  using Loss = typename TypeParam::template Loss<double>;
  const Loss loss(LossOptions{});
  const auto row = some_row<Loss>(6);
  const auto once = evaluate<4>(loss, row, {1, 1}).gradient;
  const auto thrice = evaluate<4>(loss, row, {-3, -3}).gradient;
  for (int j = 0; j < columns; ++j) EXPECT_TRUE(near(thrice[j], -3 * once[j], 1e-14));
}

}  // namespace
