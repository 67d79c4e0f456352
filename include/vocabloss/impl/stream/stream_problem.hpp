// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_STREAM_STREAM_PROBLEM_HPP
#define VOCABLOSS_IMPL_STREAM_STREAM_PROBLEM_HPP

/// \file
/// \brief What a problem must move at least: each stream read once, the gradient written once. The streaming kernels
/// move exactly that and compute nothing; their time is the ceiling that `share_of_stream` compares with.

#include <vocabloss/error.hpp>
#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Macros.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace vocabloss::Impl {

/// One matrix: rows of `type`, `stride` elements apart.
struct StreamedMatrix {
  void* data = nullptr;
  DataType type = DataType::fp32;
  std::int64_t stride = 0;
};

/// Up to three matrices read (logits, teacher, and the gradient where it is added to) and at most one written.
struct StreamProblem {
  static constexpr int most_reads = 3;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::array<StreamedMatrix, most_reads> read;
  int reads = 0;
  StreamedMatrix write;  ///< null data: nothing is written

  void add_read(const StreamedMatrix& matrix) {
    expects(reads < most_reads, [] { return std::string("a streaming kernel reads at most three matrices"); });
    read[reads++] = matrix;
  }

  /// "2R1W", say.
  std::string name() const { return std::to_string(reads) + "R" + (write.data ? "1W" : "0W"); }

  /// Every element of every stream counted once.
  std::int64_t bytes() const {
    std::int64_t each = write.data ? size_of(write.type) : 0;
    for (int r = 0; r < reads; ++r) each += size_of(read[r].type);
    return rows * columns * each;
  }
};

/// The streams of a call of a loss that reads `streams` of them. The written matrix ends up holding rubbish: give the
/// streaming kernel buffers that nobody needs (`call.gradient` of a copy; not the logits themselves in place).
template <class Real>
StreamProblem stream_problem(const RowCall<Real>& call, int streams) {
  StreamProblem problem;
  problem.rows = call.rows;
  problem.columns = call.columns;
  problem.add_read({const_cast<void*>(call.logits.data), call.logits.type, call.logits.stride});
  if (streams == 2) problem.add_read({const_cast<void*>(call.teacher.data), call.teacher.type, call.teacher.stride});
  if (!call.gradient.data) return problem;
  problem.write = {call.gradient.data, call.gradient.type, call.gradient.stride};
  if (call.gradient.accumulate) problem.add_read(problem.write);
  return problem;
}

/// The problem in units of 16 bytes. A stream of wider elements than the narrowest has two units where that has one.
/// Rows that start off a 16-byte boundary lose the up to two units that they hold in part: at most 0.2 % of 8192
/// columns of bf16. Matrices without gaps between rows are one long row, whose edges do not count.
struct StreamUnits {
  struct Matrix {
    char* data = nullptr;
    std::int64_t stride_bytes = 0;
    int ratio = 1;  ///< units for each unit of the narrowest stream

    KOKKOS_INLINE_FUNCTION char* row(std::int64_t i) const {
      const auto address = reinterpret_cast<std::uintptr_t>(data + i * stride_bytes);
      return reinterpret_cast<char*>((address + 15) / 16 * 16);
    }
  };

  std::int64_t rows = 0;
  std::int64_t units = 0;  ///< of the narrowest stream in a row
  Matrix read[StreamProblem::most_reads];
  int reads = 0;
  Matrix write;  ///< null data: none
  bool is_mixed = false;
};

inline StreamUnits stream_units(const StreamProblem& problem) {
  bool has_gaps = problem.write.data && problem.write.stride != problem.columns;
  int narrowest = problem.write.data ? size_of(problem.write.type) : 8;
  for (int r = 0; r < problem.reads; ++r) {
    has_gaps = has_gaps || problem.read[r].stride != problem.columns;
    narrowest = size_of(problem.read[r].type) < narrowest ? size_of(problem.read[r].type) : narrowest;
  }
  StreamUnits result;
  result.rows = has_gaps ? problem.rows : problem.rows > 0 ? 1 : 0;
  result.units = INT64_MAX;
  result.reads = problem.reads;
  const std::int64_t columns = has_gaps ? problem.columns : problem.rows * problem.columns;
  const auto convert = [&](const StreamedMatrix& from) {
    const int size = size_of(from.type);
    StreamUnits::Matrix to{static_cast<char*>(from.data), from.stride * size, size / narrowest};
    expects(to.ratio <= 2, [] { return std::string("streams whose elements differ by more than a factor of two"); });
    const bool aligned =
        reinterpret_cast<std::uintptr_t>(from.data) % 16 == 0 && (to.stride_bytes % 16 == 0 || result.rows == 1);
    const std::int64_t bytes = columns * size - (aligned ? 0 : 15);
    const std::int64_t units = bytes < 0 ? 0 : bytes / (16 * to.ratio);
    result.units = units < result.units ? units : result.units;
    result.is_mixed = result.is_mixed || to.ratio != 1;
    return to;
  };
  for (int r = 0; r < problem.reads; ++r) result.read[r] = convert(problem.read[r]);
  if (problem.write.data) result.write = convert(problem.write);
  return result;
}

}  // namespace vocabloss::Impl

#endif
