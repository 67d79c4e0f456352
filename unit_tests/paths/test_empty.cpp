// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Nothing to do is done: no rows, no valid rows, one column.

#include "support/check.hpp"
#include "support/compare.hpp"

namespace {

using namespace test;

class Empty : public ::testing::TestWithParam<Path> {};

TEST_P(Empty, NoRows) {
  for (const LossEntry& loss : all_losses()) {
    for (const Sequence sequence :
         {Sequence::forward, Sequence::forward_backward, Sequence::forward_then_own_statistics}) {
      Call call = ordinary_call(loss, 0, 5);
      call.path = GetParam();
      call.sequence = sequence;
      const Outputs outputs = check(loss, call);
      if (!outputs.refused.empty()) continue;
      EXPECT_EQ(outputs.sum[0], 0);
      EXPECT_EQ(outputs.valid_rows, 0);
    }
  }
}

TEST_P(Empty, NoValidRows) {
  for (const LossEntry& loss : all_losses()) {
    Call call = ordinary_call(loss, 4, 8);
    call.path = GetParam();
    call.labels = {-100, -100, -100, -100};
    const Outputs outputs = check(loss, call);
    if (!outputs.refused.empty()) continue;
    EXPECT_EQ(outputs.sum[0], 0);
    EXPECT_EQ(outputs.valid_rows, 0);
    for (const double value : outputs.gradient) EXPECT_EQ(value, 0);
  }
}

/// With one column every probability is 1: all losses but z-loss are 0, and so are their gradients.
TEST_P(Empty, OneColumn) {
  for (const LossEntry& loss : all_losses()) {
    for (const DataType type : all_types) {
      Call call = ordinary_call(loss, 3, 1);
      call.store_as(type);
      call.path = GetParam();
      const Outputs outputs = check(loss, call);
      if (!outputs.refused.empty() || std::string(loss.name) == "z_loss") continue;
      for (const double value : outputs.losses[0]) EXPECT_EQ(value, 0) << loss.name;
      for (const double value : outputs.gradient) EXPECT_EQ(value, 0) << loss.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Empty, ::testing::ValuesIn(tested_paths),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
