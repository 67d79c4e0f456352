// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Every path that does not refuse, every loss, every type, over adversarial widths, against the textbook in double.

#include "support/check.hpp"
#include "support/shapes.hpp"

namespace {

using namespace test;

class PathsAgree : public ::testing::TestWithParam<DataType> {};

TEST_P(PathsAgree, OverShortRows) {
  for (const LossEntry& loss : all_losses()) {
    for (const std::int64_t columns : short_columns) {
      Call call = ordinary_call(loss, 3, columns, static_cast<unsigned>(columns));
      call.store_as(GetParam());
      for (const Path path : tested_paths) {
        call.path = path;
        check(loss, call);
      }
    }
  }
}

TEST_P(PathsAgree, OverLongRows) {
  for (const LossEntry& loss : all_losses()) {
    for (const std::int64_t columns : long_columns) {
      Call call = ordinary_call(loss, columns > 10000 ? 1 : 3, columns, static_cast<unsigned>(columns));
      call.store_as(GetParam());
      for (const Path path : tested_paths) {
        call.path = path;
        check(loss, call);
      }
    }
  }
}

TEST_P(PathsAgree, OverManyRows) {
  for (const LossEntry& loss : all_losses()) {
    Call call = ordinary_call(loss, 517, 33);
    call.store_as(GetParam());
    for (const Path path : tested_paths) {
      call.path = path;
      check(loss, call);
    }
  }
}

TEST_P(PathsAgree, WithoutAGradient) {
  for (const LossEntry& loss : all_losses()) {
    Call call = ordinary_call(loss, 5, 129);
    call.store_as(GetParam());
    call.sequence = Sequence::forward;
    for (const Path path : tested_paths) {
      call.path = path;
      check(loss, call);
    }
  }
}

/// Flat and certain rows, and rows whose outlier is all that counts.
TEST_P(PathsAgree, OverFlatAndCertainRows) {
  for (const LossEntry& loss : all_losses()) {
    Call call = ordinary_call(loss, 4, 1500);
    for (std::int64_t j = 0; j < 1500; ++j) {
      call.x[j] = 0.5;
      call.x[1500 + j] *= 0.01;
      call.x[3000 + j] = j == 700 ? 30 : 0.01 * call.x[3000 + j];
      call.x[4500 + j] = j == 1499 ? 9 : -0.25;
    }
    call.store_as(GetParam());
    for (const Path path : tested_paths) {
      call.path = path;
      check(loss, call);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PathsAgree, ::testing::ValuesIn(all_types),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
