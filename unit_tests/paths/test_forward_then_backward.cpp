// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Forward and backward as separate calls: statistics kept by the plan or by the caller give what one pass gives.

#include "support/check.hpp"
#include "support/compare.hpp"

namespace {

using namespace test;

class ForwardThenBackward : public ::testing::TestWithParam<Path> {};

TEST_P(ForwardThenBackward, GiveWhatOnePassGives) {
  for (const LossEntry& loss : all_losses()) {
    for (const DataType type : all_types) {
      Call call = ordinary_call(loss, 6, 200);
      call.store_as(type);
      call.path = GetParam();
      call.mask = {1, 1, 0, 1, 1, 1};
      for (int k = 0; k < loss.outputs; ++k) call.upstream[k] = {1, -2, 1, 0.5, 0, 3};
      const Outputs together = check(loss, call);
      call.sequence = Sequence::forward_then_backward;
      const Outputs apart = check(loss, call);
      call.sequence = Sequence::forward_then_own_statistics;
      const Outputs own = check(loss, call);
      if (!together.refused.empty()) continue;
      expect_same_bits(apart, own);
      EXPECT_TRUE(all_near(apart.gradient, together.gradient, 0, 0)) << describe(loss, call);
    }
  }
}

/// The statistics of JSD at its ends are those of another loss.
TEST_P(ForwardThenBackward, JsdAtItsEnds) {
  const LossEntry& jsd = loss_named("jsd");
  for (const double beta : {0.0, 1.0}) {
    for (const Sequence sequence : {Sequence::forward_then_backward, Sequence::forward_then_own_statistics}) {
      Call call = ordinary_call(jsd, 7, 50);
      call.options.jsd_beta = beta;
      call.path = GetParam();
      call.sequence = sequence;
      check(jsd, call);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, ForwardThenBackward, ::testing::ValuesIn(tested_paths),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
