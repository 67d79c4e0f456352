// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Rows of any length, stride and alignment: every remainder of a pack, padding between rows that is NaN and must stay
// as it was, base pointers off every boundary.

#include "support/check.hpp"

namespace {

using namespace test;

class Strides : public ::testing::TestWithParam<Path> {};

TEST_P(Strides, EveryRemainderOfAPack) {
  const LossEntry& loss = loss_named("reverse_kl");
  for (const DataType type : all_types) {
    for (std::int64_t columns = 1; columns <= 70; ++columns) {
      Call call = ordinary_call(loss, 2, columns);
      call.store_as(type);
      call.path = GetParam();
      check(loss, call);
    }
  }
}

TEST_P(Strides, PaddedAndMisalignedRows) {
  for (const LossEntry& loss : all_losses()) {
    for (const DataType type : all_types) {
      for (const std::int64_t padding : {0, 1, 3, 16}) {
        for (const std::int64_t offset : {0, 1, 5}) {
          Call call = ordinary_call(loss, 3, 129);
          call.store_as(type);
          call.path = GetParam();
          call.padding = padding;
          call.offset = offset;
          check(loss, call);
          call.sequence = Sequence::forward_then_backward;
          check(loss, call);
        }
      }
    }
  }
}

/// Every vector of the call behind a stride of its own.
TEST_P(Strides, StridedVectors) {
  for (const LossEntry& loss : all_losses()) {
    Call call = ordinary_call(loss, 8, 16);
    call.path = GetParam();
    call.vector_stride = 3;
    call.mask = {1, 0, 1, 1, 1, 0, 1, 1};
    call.labels = {3, 4, 5, -100, 15, 0, 1, 2};
    call.row_weights = {1, 2, 0.5, 1, 3, 1, 0.25, 1};
    for (int k = 0; k < loss.outputs; ++k) call.upstream[k] = {1, 1, 2, 3, -1, 1, 0.5, 4};
    check(loss, call);
    call.narrow_labels = true;
    check(loss, call);
  }
}

TEST_P(Strides, OneUpstreamForAllRowsThroughStrideZero) {
  for (const LossEntry& loss : all_losses()) {
    Call call = ordinary_call(loss, 5, 33);
    call.path = GetParam();
    call.broadcast_upstream = true;
    for (int k = 0; k < loss.outputs; ++k) call.upstream[k] = {-0.75 + k};
    check(loss, call);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Strides, ::testing::ValuesIn(tested_paths),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
