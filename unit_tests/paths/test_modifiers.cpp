// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// What a caller may add to a loss: mask, ignored labels, row weights, divisor, upstream gradients, scales, temperature.

#include "support/check.hpp"
#include "support/compare.hpp"

namespace {

using namespace test;

class Modifiers : public ::testing::TestWithParam<Path> {
 protected:
  template <class Change>
  void check_all(Change&& change) {
    for (const LossEntry& loss : all_losses()) {
      for (const DataType type : {DataType::bf16, DataType::fp64}) {
        Call call = ordinary_call(loss, 6, 65);
        call.store_as(type);
        call.path = GetParam();
        change(call, loss);
        for (const Sequence sequence : {Sequence::forward_backward, Sequence::forward_then_backward}) {
          call.sequence = sequence;
          check(loss, call);
        }
      }
    }
  }
};

TEST_P(Modifiers, Mask) {
  check_all([](Call& call, const LossEntry&) { call.mask = {1, 0, 1, 255, 0, 1}; });
}

TEST_P(Modifiers, IgnoredLabels) {
  check_all([](Call& call, const LossEntry&) { call.labels = {3, -100, 0, 64, -100, 7}; });
  check_all([](Call& call, const LossEntry&) {
    call.ignore_index = 7;  // a column that exists
    call.labels = {3, 7, 0, 64, 7, 8};
  });
}

TEST_P(Modifiers, RowWeights) {
  check_all([](Call& call, const LossEntry&) { call.row_weights = {1, 0.5, 0, 3, -2, 0.125}; });
}

TEST_P(Modifiers, Divisor) {
  check_all([](Call& call, const LossEntry&) { call.divisor = 48; });
}

TEST_P(Modifiers, ScalarUpstream) {
  check_all([](Call& call, const LossEntry&) { call.upstream_scalar[0] = -2.5, call.upstream_scalar[1] = 0.5; });
}

TEST_P(Modifiers, UpstreamPerRow) {
  check_all([](Call& call, const LossEntry& loss) {
    call.upstream[0] = {1, -1, 0, 0.5, 8, 2};
    if (loss.outputs == 2) call.upstream[1] = {0, 2, -3, 0.25, 1, 1};
  });
}

TEST_P(Modifiers, ScalesAndTemperature) {
  check_all([](Call& call, const LossEntry&) {
    call.options.logit_scale = 1.5;
    call.options.teacher_scale = 0.75;
  });
  check_all([](Call& call, const LossEntry&) {
    call.options.temperature = 2;
    call.options.logit_scale = 0.5;
  });
  check_all([](Call& call, const LossEntry&) {
    call.options.temperature = 3;
    call.options.temperature_squared = true;
  });
}

TEST_P(Modifiers, JsdBetaToItsEnds) {
  for (const double beta : {0.0, 0.05, 0.3, 0.95, 1.0}) {
    check_all([&](Call& call, const LossEntry&) { call.options.jsd_beta = beta; });
  }
}

TEST_P(Modifiers, AllTogether) {
  check_all([](Call& call, const LossEntry& loss) {
    call.mask = {1, 1, 0, 1, 1, 1};
    call.labels = {3, -100, 9999, 64, 0, 7};  // the one out of range is masked
    call.row_weights = {1, 0.5, 2, 3, -2, 0.125};
    for (int k = 0; k < loss.outputs; ++k) call.upstream[k] = {1, -1, 0, 0.5, 8, 2};
    call.divisor = 4;
    call.options.temperature = 1.5;
    call.options.temperature_squared = true;
  });
}

/// Two outputs of one pass: each upstream reaches its own part of the gradient.
TEST_P(Modifiers, TwoOutputsHaveUpstreamsOfTheirOwn) {
  const LossEntry& both = loss_named("log_prob_entropy");
  Call call = ordinary_call(both, 3, 40);
  call.store_as(DataType::fp64);
  call.path = GetParam();
  if (!check(both, call).refused.empty()) return;
  call.upstream_scalar[1] = 0;
  const Outputs only_log_prob = check(both, call);
  EXPECT_TRUE(all_near(only_log_prob.gradient, loss_named("log_prob").run(call).gradient, 1e-15, 1e-13));
  call.upstream_scalar[0] = 0;
  call.upstream_scalar[1] = 1;
  const Outputs only_entropy = check(both, call);
  call.upstream_scalar[0] = 1;
  EXPECT_TRUE(all_near(only_entropy.gradient, loss_named("entropy").run(call).gradient, 1e-15, 1e-13));
}

INSTANTIATE_TEST_SUITE_P(Paths, Modifiers, ::testing::ValuesIn(tested_paths),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
