// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Faults that users of such kernels reported: indexing, labels, masks, normalisation. Each test is named after the
// report's id and its values are the report's own where they can be had.

#include <cmath>

#include "support/check.hpp"
#include "support/compare.hpp"

namespace {

using namespace test;

/// Label cross-entropy of fp64 rows without anything else.
Call cross_entropy(std::int64_t rows, std::int64_t columns, std::vector<double> x, std::vector<std::int64_t> labels) {
  Call call;
  call.rows = rows;
  call.columns = columns;
  call.x = std::move(x);
  call.labels = std::move(labels);
  return call;
}

class Faults : public ::testing::TestWithParam<Path> {
 protected:
  const LossEntry& ce = loss_named("cross_entropy");
  Outputs run(const LossEntry& loss, Call call) {
    call.path = GetParam();
    return check(loss, call);
  }
};

/// Vocabularies that are no multiple of a tile: padding lanes must not add exp(0).
TEST_P(Faults, A10_TailMasking) {
  for (const std::int64_t columns : {3, 5, 7, 11, 13}) {
    Call call = cross_entropy(1, columns, std::vector<double>(columns, -30.0), {0});
    call.block_cap = 8;
    const Outputs log_prob = run(loss_named("log_prob"), call);
    if (!log_prob.refused.empty()) return;
    EXPECT_NEAR(log_prob.losses[0][0], -std::log(columns), 1e-6);
    EXPECT_NEAR(run(loss_named("entropy"), call).losses[0][0], std::log(columns), 1e-6);
  }
}

TEST_P(Faults, A13_NoRows) {
  const Outputs outputs = run(ce, cross_entropy(0, 10, {}, {}));
  EXPECT_EQ(outputs.sum[0], 0);
  EXPECT_EQ(outputs.valid_rows, 0);
}

TEST_P(Faults, A14_A15_AllRowsIgnored) {
  Call call = ordinary_call(ce, 10, 5);
  call.labels.assign(10, -100);
  call.divisor = 1;
  const Outputs outputs = run(ce, call);
  if (!outputs.refused.empty()) return;
  EXPECT_EQ(outputs.sum[0], 0);
  EXPECT_EQ(outputs.valid_rows, 0);
  for (const double value : outputs.gradient) EXPECT_EQ(value, 0);
}

/// A mean over valid rows is the caller's divisor.
TEST_P(Faults, A16_A25_TheDivisorIsTheCallers) {
  Call call = ordinary_call(ce, 4, 9);
  call.labels = {-100, 3, -100, 8};
  call.divisor = 2;
  const Outputs outputs = run(ce, call);
  if (!outputs.refused.empty()) return;
  EXPECT_EQ(outputs.valid_rows, 2);
  EXPECT_NEAR(outputs.sum[0], (outputs.losses[0][1] + outputs.losses[0][3]) / 2, 1e-6);
}

TEST_P(Faults, A17_UnreducedLossesDoNotScaleTheGradient) {
  const Outputs outputs = run(ce, cross_entropy(4, 2, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 0, 1}));
  if (!outputs.refused.empty()) return;
  EXPECT_TRUE(all_near(outputs.gradient, {-.5, .5, .5, -.5, -.5, .5, .5, -.5}, 1e-7, 0));
}

TEST_P(Faults, A18_PerRowUpstream) {
  Call call = ordinary_call(ce, 8, 15);
  call.labels[0] = -100;  // with row 0 ignored, its upstream must not reach the others
  call.upstream[0] = {0, 1, 0.5, 2, 0.25, -1, 3, 1};
  const Outputs outputs = run(ce, call);
  if (!outputs.refused.empty()) return;
  Call plain = call;
  plain.upstream[0].clear();
  const Outputs unscaled = run(ce, plain);
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t j = 0; j < 15; ++j) {
      EXPECT_NEAR(outputs.gradient[i * 15 + j], call.upstream[0][i] * unscaled.gradient[i * 15 + j], 1e-6);
    }
  }
}

TEST_P(Faults, A8_StridedUpstream) {
  Call call = ordinary_call(loss_named("log_prob_entropy"), 8, 16);
  call.upstream[0] = {1, 2, 3, 4, 5, 6, 7, 8};
  call.upstream[1] = {-1, 1, -2, 2, -3, 3, -4, 4};
  const Outputs dense = run(loss_named("log_prob_entropy"), call);
  call.vector_stride = 2;
  const Outputs strided = run(loss_named("log_prob_entropy"), call);
  if (dense.refused.empty()) expect_same_bits(dense, strided);
}

TEST_P(Faults, A19_A20_LabelsOutsideTheVocabulary) {
  Call call = cross_entropy(4, 8, std::vector<double>(32, 0.5), {-1, 8, 7, -4});
  const Outputs outputs = run(ce, call);
  if (!outputs.refused.empty()) return;
  EXPECT_EQ(outputs.invalid_labels, 3);
  EXPECT_EQ(outputs.valid_rows, 4);
  for (const int row : {0, 1, 3}) {
    EXPECT_TRUE(std::isnan(outputs.losses[0][row]));
    for (int j = 0; j < 8; ++j) EXPECT_TRUE(std::isnan(outputs.gradient[row * 8 + j]));
  }
  EXPECT_NEAR(outputs.losses[0][2], std::log(8), 1e-6);
}

TEST_P(Faults, A21_TheIgnoredLabelIsNeverAnIndex) {
  for (const std::int64_t ignore : {-100L, -1L, 1L, 1L << 60, -(1L << 60)}) {
    Call call = cross_entropy(3, 2, {1, 2, 3, 4, 5, 6}, {ignore, 0, ignore});
    call.ignore_index = ignore;
    const Outputs outputs = run(ce, call);
    if (!outputs.refused.empty()) return;
    EXPECT_EQ(outputs.losses[0][0], 0);
    EXPECT_EQ(outputs.valid_rows, 1);
    EXPECT_EQ(outputs.invalid_labels, 0);
  }
}

TEST_P(Faults, A23_SoftLossesHonourIgnoredLabels) {
  for (const char* name :
       {"soft_cross_entropy", "forward_kl", "reverse_kl", "jsd", "soft_cross_entropy_probabilities"}) {
    Call call = ordinary_call(loss_named(name), 4, 12);
    call.labels = {-100, -100, 3, 4};
    call.divisor = 2;
    const Outputs outputs = run(loss_named(name), call);
    if (!outputs.refused.empty()) return;
    EXPECT_EQ(outputs.valid_rows, 2);
    EXPECT_NEAR(outputs.sum[0], (outputs.losses[0][2] + outputs.losses[0][3]) / 2, 1e-5);
  }
}

TEST_P(Faults, A24_MaskedRowsOfReverseKl) {
  const LossEntry& loss = loss_named("reverse_kl");
  Call call = ordinary_call(loss, 3, 20);
  call.mask = {1, 0, 1};
  const Outputs outputs = run(loss, call);
  if (!outputs.refused.empty()) return;
  EXPECT_NEAR(outputs.sum[0], outputs.losses[0][0] + outputs.losses[0][2], 1e-5);
  EXPECT_EQ(outputs.losses[0][1], 0);
  for (int j = 20; j < 40; ++j) EXPECT_EQ(outputs.gradient[j], 0);
}

/// z-loss is a loss of its own: cross-entropy is the same with and without it, and it is 0 on ignored rows.
TEST_P(Faults, A27_ZLossIsSeparate) {
  const LossEntry& z = loss_named("z_loss");
  Call call = ordinary_call(z, 4, 50);
  call.labels = {1, -100, 2, -100};
  call.upstream_scalar[0] = 1e-4;
  const Outputs outputs = run(z, call);
  if (!outputs.refused.empty()) return;
  EXPECT_EQ(outputs.losses[0][1], 0);
  for (int j = 50; j < 100; ++j) EXPECT_EQ(outputs.gradient[j], 0);
}

INSTANTIATE_TEST_SUITE_P(Paths, Faults, ::testing::ValuesIn(tested_paths),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
