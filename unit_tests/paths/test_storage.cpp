// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The gradient over the logits, added to a buffer, in another type than the logits; a teacher in float over 16-bit
// logits.

#include "support/check.hpp"
#include "support/compare.hpp"
#include "support/shapes.hpp"

namespace {

using namespace test;

class Storage : public ::testing::TestWithParam<Path> {
 protected:
  template <class Change>
  void check_all(const std::vector<DataType>& types, Change&& change) {
    for (const LossEntry& loss : all_losses()) {
      for (const DataType type : types) {
        for (const std::int64_t columns : {1, 17, 129, 3000}) {
          Call call = ordinary_call(loss, 4, columns);
          call.store_as(type);
          call.path = GetParam();
          call.mask = {1, 1, 0, 1};
          change(call, loss);
        }
      }
    }
  }
  const std::vector<DataType> every{std::begin(all_types), std::end(all_types)};
};

TEST_P(Storage, InPlaceIsTheSameAsOutOfPlace) {
  check_all(every, [](Call& call, const LossEntry& loss) {
    const Outputs apart = check(loss, call);
    call.in_place = true;
    const Outputs in_place = check(loss, call);
    if (apart.refused.empty() && in_place.refused.empty()) expect_same_bits(apart, in_place);
    call.padding = 3;
    call.offset = 1;
    check(loss, call);
    call.sequence = Sequence::forward_then_backward;
    check(loss, call);
  });
}

TEST_P(Storage, AccumulatedGradientsAreRoundedOnceAfterTheSum) {
  check_all(every, [](Call& call, const LossEntry& loss) {
    call.gradient_before = logits(call.rows * call.columns, 99, 0.125);
    for (double& value : call.gradient_before) value = round_to(call.gradient, value);
    for (const Sequence sequence : {Sequence::forward_backward, Sequence::forward_then_backward}) {
      call.sequence = sequence;
      call.padding = 2;
      const Outputs outputs = check(loss, call);
      if (!outputs.refused.empty()) continue;
      for (std::int64_t j = 2 * call.columns; j < 3 * call.columns; ++j) {
        EXPECT_EQ(outputs.gradient[j], call.gradient_before[j]) << "a masked row adds nothing";
      }
    }
  });
}

TEST_P(Storage, FloatTeacherOverNarrowLogits) {
  check_all({DataType::bf16, DataType::fp16, DataType::fp64}, [](Call& call, const LossEntry& loss) {
    if (loss.streams == 1) return;
    call.teacher = DataType::fp32;
    check(loss, call);
    call.gradient = DataType::fp32;
    check(loss, call);
    call.offset = 1;
    call.padding = 1;
    check(loss, call);
  });
}

TEST_P(Storage, FloatGradientOfAnyLogits) {
  check_all(every, [](Call& call, const LossEntry& loss) {
    call.gradient = DataType::fp32;
    check(loss, call);
    call.sequence = Sequence::forward_then_backward;
    call.padding = 5;
    check(loss, call);
    call.gradient_before.assign(call.rows * call.columns, 0.25);
    check(loss, call);
  });
}

INSTANTIATE_TEST_SUITE_P(Paths, Storage, ::testing::ValuesIn(tested_paths),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
