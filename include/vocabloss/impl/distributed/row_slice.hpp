// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_ROW_SLICE_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_ROW_SLICE_HPP

/// \file
/// \brief Some neighbouring rows of a call as a call of their own.

#include <vocabloss/impl/row_call.hpp>

#include <cstdint>

namespace vocabloss::Impl {

template <class Real>
RowCall<Real> slice_rows(const RowCall<Real>& call, std::int64_t first, std::int64_t count, int statistics_per_row) {
  RowCall<Real> slice = call;
  slice.rows = count;
  const auto bytes = [](const void* data, std::int64_t offset) { return static_cast<const char*>(data) + offset; };
  for (Stream* stream : {&slice.logits, &slice.teacher}) {
    if (stream->data) stream->data = bytes(stream->data, first * stream->stride * size_of(stream->type));
  }
  if (slice.gradient.data) {
    slice.gradient.data =
        static_cast<char*>(slice.gradient.data) + first * slice.gradient.stride * size_of(slice.gradient.type);
  }
  const auto move = [first](auto& values) {
    if (values.data) values.data += first * values.stride;
  };
  move(slice.labels32);
  move(slice.labels64);
  move(slice.mask);
  move(slice.row_weights);
  for (int output = 0; output < 2; ++output) {
    move(slice.upstream[output]);
    if (slice.losses[output]) slice.losses[output] += first * slice.losses_stride[output];
  }
  if (slice.statistics) slice.statistics += first * statistics_per_row;
  return slice;
}

}  // namespace vocabloss::Impl

#endif
