// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The block cap changes how a row is cut, not what it gives; and the same plan gives the same bits every time.

#include "support/check.hpp"
#include "support/compare.hpp"
#include "support/shapes.hpp"

namespace {

using namespace test;

TEST(BlockCaps, GiveTheSameValues) {
  for (const LossEntry& loss : all_losses()) {
    for (const DataType type : {DataType::bf16, DataType::fp32}) {
      for (const std::int64_t columns : {1, 100, 4099}) {
        Call call = ordinary_call(loss, 2, columns);
        call.store_as(type);
        for (const int cap : {1, 2, 3, 7, 8, 31, 32, 33, 100, 512, 1000, 1024, 2047, 4096, 8192, 32768, 1 << 30}) {
          call.block_cap = cap;
          check(loss, call);
        }
      }
    }
  }
}

TEST(BlockCaps, GiveTheSameValuesOverOddStrides) {
  const LossEntry& loss = loss_named("jsd");
  Call call = ordinary_call(loss, 3, 777);
  call.store_as(DataType::bf16);
  call.padding = 5;
  call.offset = 3;
  for (const int cap : {1, 5, 64, 333, 776, 777, 778, 2048}) {
    call.block_cap = cap;
    check(loss, call);
  }
}

class Determinism : public ::testing::TestWithParam<Path> {};

TEST_P(Determinism, SameBitsAgain) {
  for (const LossEntry& loss : all_losses()) {
    for (const DataType type : all_types) {
      Call call = ordinary_call(loss, 700, 130);
      call.store_as(type);
      call.path = GetParam();
      const Outputs first = loss.run(call);
      call.sequence = Sequence::forward_backward_twice;
      const Outputs again = loss.run(call);
      if (!first.refused.empty()) continue;
      SCOPED_TRACE(describe(loss, call));
      expect_same_bits(first, again);
      expect_same_bits(first, loss.run(call));
    }
  }
}

/// The rows' neighbours, number and place do not matter to a row.
TEST_P(Determinism, ARowIsTheSameAloneAndInABatch) {
  for (const LossEntry& loss : all_losses()) {
    Call batch = ordinary_call(loss, 40, 97);
    batch.path = GetParam();
    const Outputs together = loss.run(batch);
    if (!together.refused.empty()) return;
    for (const std::int64_t row : {0, 21, 39}) {
      Call alone = batch;
      alone.rows = 1;
      alone.x.assign(batch.x.begin() + row * 97, batch.x.begin() + (row + 1) * 97);
      if (loss.streams == 2) alone.t.assign(batch.t.begin() + row * 97, batch.t.begin() + (row + 1) * 97);
      if (loss.needs_label) alone.labels = {batch.labels[row]};
      const Outputs one = loss.run(alone);
      SCOPED_TRACE(describe(loss, batch));
      EXPECT_EQ(one.losses[0][0], together.losses[0][row]);
      const std::vector<double> gradient(together.gradient.begin() + row * 97,
                                         together.gradient.begin() + (row + 1) * 97);
      EXPECT_TRUE(same_values(one.gradient, gradient));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Determinism, ::testing::ValuesIn(tested_paths),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
