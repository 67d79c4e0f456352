// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Rows that cannot have a loss: NaN for that row alone, counted where it is the label's fault; and rows that do not
// count, of which nothing is looked at.

#include <cmath>

#include "support/check.hpp"
#include "support/compare.hpp"

namespace {

using namespace test;

class Poison : public ::testing::TestWithParam<Path> {
 protected:
  template <class Change>
  void check_all(Change&& change) {
    for (const LossEntry& loss : all_losses()) {
      for (const DataType type : all_types) {
        for (const std::int64_t columns : {1, 9, 600}) {
          Call call = ordinary_call(loss, 5, columns);
          call.store_as(type);
          call.path = GetParam();
          change(call, loss);
          check(loss, call);
          call.sequence = Sequence::forward_then_backward;
          check(loss, call);
        }
      }
    }
  }
};

TEST_P(Poison, NanAndPlusInfinityInTheLogits) {
  check_all([](Call& call, const LossEntry&) {
    call.x[call.columns - 1] = not_a_number;
    call.x[2 * call.columns] = infinity;
  });
}

TEST_P(Poison, NanAndPlusInfinityInTheTeacher) {
  check_all([](Call& call, const LossEntry& loss) {
    if (loss.streams == 1) return;
    call.t[call.columns - 1] = not_a_number;
    call.t[3 * call.columns] = infinity;
  });
}

TEST_P(Poison, NoFiniteLogit) {
  check_all([](Call& call, const LossEntry& loss) {
    for (std::int64_t j = 0; j < call.columns; ++j) {
      call.x[call.columns + j] = -infinity;
      if (loss.streams == 2 && loss.teacher_is_logits) call.t[4 * call.columns + j] = -infinity;
    }
  });
}

TEST_P(Poison, LabelsOutsideTheVocabulary) {
  check_all([](Call& call, const LossEntry&) {
    call.labels = {call.columns, 0, -1, std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::min()};
  });
}

TEST_P(Poison, MaskAndIgnoredLabelsWinOverEverything) {
  check_all([](Call& call, const LossEntry& loss) {
    call.mask = {0, 1, 0, 1, 0};
    call.labels = {0, -100, call.columns + 5, 0, 0};
    call.row_weights = {not_a_number, not_a_number, infinity, 1, 1};
    for (int k = 0; k < loss.outputs; ++k) call.upstream[k] = {not_a_number, infinity, not_a_number, 2, 1};
    for (std::int64_t j = 0; j < call.columns; ++j) {
      call.x[j] = not_a_number;
      call.x[call.columns + j] = j % 2 ? infinity : not_a_number;
      call.x[2 * call.columns + j] = -infinity;
      if (loss.streams == 2) call.t[4 * call.columns + j] = not_a_number;
    }
  });
}

/// The loss reads one stream: the teacher that the batch holds too is none of its business.
TEST_P(Poison, AStreamThatIsNotReadDoesNotMatter) {
  for (const LossEntry& loss : all_losses()) {
    if (loss.streams == 2) continue;
    Call call = ordinary_call(loss, 3, 33);
    call.path = GetParam();
    call.t.assign(3 * 33, not_a_number);
    check(loss, call);
  }
}

/// Infinite losses are answers, not poison: other rows and the gradient stay finite where section 3 of the formulas has
/// a finite gradient.
TEST_P(Poison, InfiniteLossesAreNotPoison) {
  check_all([](Call& call, const LossEntry& loss) {
    if (call.columns == 1) return;
    call.x[0] = -infinity;  // probability 0, which a target or a label may want
    call.x[2 * call.columns + 1] = -infinity;
    if (loss.needs_label) call.labels = {0, 1, 1, 0, 1};
    if (loss.streams == 2) {
      call.t[call.columns] = loss.teacher_is_logits ? -infinity : 0;  // and the other way round
      call.t[2 * call.columns + 1] = loss.teacher_is_logits ? -infinity : 0;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Paths, Poison, ::testing::ValuesIn(tested_paths),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
