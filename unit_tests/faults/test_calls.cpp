// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Faults that users of such kernels reported: strided inputs, in-place order, accumulation, repeatability, small
// vocabularies, long offsets. Names carry the reports' ids.

#include <vocabloss/impl/row_call.hpp>

#include <cmath>

#include "support/check.hpp"
#include "support/compare.hpp"
#include "support/shapes.hpp"

namespace {

using namespace test;

class Faults : public ::testing::TestWithParam<Path> {
 protected:
  Outputs run(const char* loss, Call call) {
    call.path = GetParam();
    return check(loss_named(loss), call);
  }
};

/// Rows that are far apart, as those of a transposed [S, B, V] are.
TEST_P(Faults, A6_StridedRows) {
  Call call = ordinary_call(loss_named("cross_entropy"), 4, 8);
  const Outputs dense = run("cross_entropy", call);
  call.padding = 8;
  const Outputs strided = run("cross_entropy", call);
  if (dense.refused.empty()) expect_same_bits(dense, strided);
}

/// log-probability and entropy, in any order and in one pass, from logits that a gradient may then overwrite.
TEST_P(Faults, A58_InPlaceOrder) {
  Call call = ordinary_call(loss_named("log_prob_entropy"), 5, 300);
  const Outputs apart = run("log_prob_entropy", call);
  const Outputs log_prob = run("log_prob", call);
  const Outputs entropy = run("entropy", call);
  call.in_place = true;
  const Outputs in_place = run("log_prob_entropy", call);
  if (!apart.refused.empty()) return;
  expect_same_bits(apart, in_place);
  EXPECT_TRUE(all_near(apart.losses[0], log_prob.losses[0], 1e-6, 1e-6));
  EXPECT_TRUE(all_near(apart.losses[1], entropy.losses[0], 1e-6, 1e-6));
}

/// The first call accumulates once, as every other does: making a plan must not touch the caller's buffers.
TEST_P(Faults, A54_TheFirstAccumulatingCall) {
  Call call = ordinary_call(loss_named("reverse_kl"), 3, 64);
  call.gradient_before.assign(3 * 64, 1.0);
  const Outputs outputs = run("reverse_kl", call);
  if (!outputs.refused.empty()) return;
  Call plain = call;
  plain.gradient_before.clear();
  const Outputs once = run("reverse_kl", plain);
  for (std::size_t j = 0; j < once.gradient.size(); ++j) {
    EXPECT_NEAR(outputs.gradient[j], 1 + once.gradient[j], 1e-6);
  }
}

TEST_P(Faults, A67_SumsRepeatToTheBit) {
  Call call = ordinary_call(loss_named("cross_entropy"), 5000, 11);
  call.store_as(DataType::fp64);
  call.path = GetParam();
  const Outputs first = loss_named("cross_entropy").run(call);
  for (int repeat = 0; repeat < 5; ++repeat) {
    EXPECT_EQ(loss_named("cross_entropy").run(call).sum[0], first.sum[0]);
  }
}

TEST_P(Faults, A70_SmallVocabularies) {
  for (const LossEntry& loss : all_losses()) {
    for (const std::int64_t columns : {1, 2, 3, 31, 33}) run(loss.name, ordinary_call(loss, 2, columns));
  }
}

/// Row offsets are 64-bit: the strides of a call whose rows lie further apart than 2^31 elements, without touching the
/// memory in between.
TEST(FaultsOfIndexing, A1_A3_A5_RowOffsetsAre64Bit) {
  const char* base = reinterpret_cast<const char*>(std::uintptr_t{1} << 40);
  const vocabloss::Impl::Stream stream{base, DataType::bf16, 131072};
  const char* row = reinterpret_cast<const char*>(stream.row<vocabloss::bfloat16>(1000000));
  EXPECT_EQ(row - base, std::int64_t{1000000} * 131072 * 2);
  char* writable = reinterpret_cast<char*>(std::uintptr_t{1} << 40);
  const vocabloss::Impl::GradientStream gradient{writable, DataType::fp32, 131072, false};
  EXPECT_EQ(reinterpret_cast<char*>(gradient.row<float>(1000000)) - writable, std::int64_t{1000000} * 131072 * 4);
}

INSTANTIATE_TEST_SUITE_P(Paths, Faults, ::testing::ValuesIn(tested_paths),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
