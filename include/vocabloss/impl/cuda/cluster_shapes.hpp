// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLUSTER_SHAPES_HPP
#define VOCABLOSS_IMPL_CUDA_CLUSTER_SHAPES_HPP

/// \file
/// \brief Which shape of path `cluster` a row gets, and where the path ends. Plain arithmetic, testable without a
/// device.

#include <vocabloss/tuning/cluster_shape.hpp>
#include <vocabloss/types.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace vocabloss::Impl {

/// Vectors of 16 bytes that a row touches at most, wherever it starts.
constexpr std::int64_t vectors_of(std::int64_t columns, DataType type) {
  const int lanes = 16 / size_of(type);
  return (columns + lanes - 1 + lanes - 1) / lanes;
}

/// More pieces than a row has: the whole next row is summed before the gradient of this one.
inline constexpr int whole_row = 64;

/// The candidates in the order in which they are tried: a row gets the first whose `up_to` it does not exceed, and
/// which holds it. `up_to` counts bf16 columns; float columns count double.
struct ClusterChoice {
  std::int64_t up_to;
  ClusterShape shape;
};

inline constexpr std::int64_t any_length = INT64_C(1) << 40;

/// Where memory is what kernels wait for. Evidence, in the comments: share of a streaming kernel in the same loop
/// (reverse KL, label cross-entropy and JSD; forward + backward, 4096 rows of bf16, random normal logits), one H100
/// 80GB HBM3, 2026-11-28, before kernels took fewer instructions a piece.
namespace slower_memory {
inline constexpr ClusterChoice one_stream[] = {
    {16384, {256, 2, 2, 1, whole_row}},  // 8192: 0.89, 16384: 0.99 ({512, 2, 1, 1}: 0.95)
    {32768, {512, 2, 1, 1, whole_row}},  // 32768: 1.02 ({256, 2, 2, 1, 0}: 1.00)
    {57344, {512, 2, 1, 1, 0}},          // 50257: 1.00 ({512, 2, 1, 2, whole_row}: 0.98)
    {65536, {512, 2, 1, 2, whole_row}},  // 65536: 1.02 ({512, 2, 1, 1, 0}: 1.01)
    {131072, {512, 2, 1, 2, 0}},         // 131072: 1.01
    {262144, {512, 2, 1, 4, 0}},         // 262144: 1.02 ({512, 2, 1, 8, whole_row}: 1.02)
    {any_length, {512, 2, 1, 8, 0}},     // not measured
};
inline constexpr ClusterChoice two_streams[] = {
    {8192, {256, 2, 2, 1, whole_row}},  // 8192: 0.86
    {16384, {256, 2, 2, 1, 0}},         // 16384: 0.94
    {32768, {256, 4, 1, 1, 0}},         // 32768: 0.98 ({256, 2, 2, 2, 0}: 0.96)
    {65536, {256, 4, 1, 2, 0}},         // 50257: 0.85, 50304: 0.90, 65536: 0.98 ({512, 2, 1, 2, 0}: 0.91)
    {131072, {256, 2, 2, 8, 0}},        // 131072: 0.96, forward KL 0.95 ({256, 4, 1, 4, 0}: 0.95, 0.87)
    {any_length, {256, 4, 1, 8, 0}},    // 262144: 0.90
};
inline constexpr ClusterChoice two_rounds[] = {
    {16384, {256, 2, 2, 1, 0}},       // 8192: 0.53, 16384: 0.61
    {32768, {256, 2, 2, 2, 0}},       // 32768: 0.61
    {40960, {256, 4, 1, 1, 0}},       // not measured
    {65536, {256, 2, 2, 4, 0}},       // 65536: 0.63 ({256, 4, 1, 2, 0}: 0.61)
    {131072, {256, 2, 2, 8, 0}},      // 131072: 0.62 ({256, 4, 1, 4, 0}: 0.56)
    {any_length, {256, 4, 1, 8, 0}},  // 262144: 0.54
};
}  // namespace slower_memory

/// Where kernels wait for instructions too, more warps win. Evidence: ms, soft cross-entropy after reverse KL, the same
/// problem, one NVIDIA H200, 2026-11-28.
namespace faster_memory {
inline constexpr ClusterChoice one_stream[] = {
    {8192, {256, 2, 2, 1, 2}},                // 0.0529 ({.., 0}: 0.0586, {512, 2, 1, 1, 1}: 0.0675)
    {16384, {256, 2, 2, 1, whole_row}},       // 0.0815 ({.., 0}: 0.0844)
    {32768, {256, 2, 2, 1, 0}},               // 0.1451 ({512, 2, 1, 1, whole_row}: 0.1540)
    {57344, {256, 2, 2, 2, 1}},               // 50257: 0.2340 ({512, 2, 1, 1, 1}: 0.2365)
    {65536, {512, 2, 1, 1, 0}},               // 0.2760 ({256, 2, 2, 2, 0}: 0.2771)
    {131072, {512, 2, 1, 2, 0}},              // 0.5472 ({256, 2, 2, 4, 1}: 0.5685)
    {any_length, {512, 2, 1, 8, whole_row}},  // 262144: 1.1817 ({512, 2, 1, 4, 1}: 1.2005)
};
inline constexpr ClusterChoice two_streams[] = {
    {8192, {256, 2, 2, 1, 2}},            // 0.0763, 0.0869 ({.., 0}: 0.0806, 0.0891)
    {16384, {256, 2, 2, 1, 0}},           // 0.1260, 0.1384 ({512, 2, 1, 1, 2}: 0.1336, 0.1438)
    {32768, {512, 2, 1, 1, 0}},           // 0.2454, 0.2592 ({256, 4, 1, 1, 0}: 0.2469, 0.2836)
    {57344, {512, 2, 1, 2, 2}},           // 50257: 0.4352, 0.4664 ({256, 4, 1, 2, 2}: 0.4399, 0.4774)
    {65536, {512, 2, 1, 2, 0}},           // 0.5011, 0.5410 ({256, 4, 1, 2, 0}: 0.5028, 0.5887)
    {131072, {512, 2, 1, 8, whole_row}},  // 1.1026, 1.2086 ({512, 2, 1, 4, 0}: 1.1268, 1.26)
    {any_length, {512, 2, 1, 8, 0}},      // 262144: 2.4097, 2.5784 ({256, 4, 1, 8, 2}: 2.4682, 2.8468)
};
inline constexpr ClusterChoice two_rounds[] = {
    {16384, {256, 2, 2, 1, 0}},       // 8192: 0.1275, 16384: 0.2129 ({512, 2, 1, 1}: 0.1416, 0.2230)
    {32768, {256, 2, 2, 2, 0}},       // 0.4187 ({512, 2, 1, 1, 0}: 0.4194)
    {65536, {512, 2, 1, 2, 0}},       // 50257: 0.8053, 65536: 0.8651 ({256, 2, 2, 4, 0}: 0.8267, 0.9049)
    {131072, {256, 2, 2, 8, 0}},      // 1.9060
    {any_length, {512, 2, 1, 8, 0}},  // 262144: 3.9893 ({256, 4, 1, 8, 0}: 4.2294)
};
}  // namespace faster_memory

/// `memory_is_fast`: above 4 TB/s, as an H200's.
constexpr std::span<const ClusterChoice> cluster_choices(int streams, int rounds, bool memory_is_fast) {
  using Choices = std::span<const ClusterChoice>;
  if (memory_is_fast) {
    return rounds == 2    ? Choices(faster_memory::two_rounds)
           : streams == 2 ? Choices(faster_memory::two_streams)
                          : Choices(faster_memory::one_stream);
  }
  return rounds == 2    ? Choices(slower_memory::two_rounds)
         : streams == 2 ? Choices(slower_memory::two_streams)
                        : Choices(slower_memory::one_stream);
}

/// Null if no shape holds the row.
constexpr const ClusterShape* choose_cluster_shape(std::int64_t columns, DataType type, int streams, int rounds,
                                                   bool memory_is_fast = false) {
  for (const ClusterChoice& choice : cluster_choices(streams, rounds, memory_is_fast)) {
    if (columns * size_of(type) / 2 <= choice.up_to && choice.shape.holds(vectors_of(columns, type), streams)) {
      return &choice.shape;
    }
  }
  return nullptr;
}

/// The longest row that some shape holds: the same for all memories.
constexpr std::int64_t cluster_max_columns(DataType type, int streams, int rounds) {
  std::int64_t fits = 0, too_long = INT64_C(1) << 30;
  while (too_long - fits > 1) {
    const std::int64_t middle = (fits + too_long) / 2;
    (choose_cluster_shape(middle, type, streams, rounds) ? fits : too_long) = middle;
  }
  return fits;
}

/// What the path needs to know to say whether it runs a problem. No gradient: `gradient` is `logits`.
struct ClusterProblem {
  std::int64_t columns;
  DataType logits, teacher, gradient;
  int streams, rounds;
  int compute_capability;  ///< 90 on an H100
};

/// Empty, or why path `cluster` cannot run it and what can.
inline std::string cluster_refusal(const ClusterProblem& problem) {
  const auto type_differs = [&](const char* what, DataType type) {
    return std::string("path cluster takes the ") + what + " in the logits' type only (" + name_of(problem.logits) +
           "), not in " + name_of(type) + "; use path split or team";
  };
  if (problem.compute_capability != 90) return "path cluster runs on sm_90 GPUs only; use path team";
  if (problem.logits == DataType::fp64) return "path cluster accumulates in float32 and takes no fp64; use path team";
  if (problem.streams == 2 && problem.teacher != problem.logits) return type_differs("teacher", problem.teacher);
  if (problem.gradient != problem.logits) return type_differs("gradient", problem.gradient);
  if (!choose_cluster_shape(problem.columns, problem.logits, problem.streams, problem.rounds)) {
    return "a row of " + std::to_string(problem.columns) + " columns does not fit a cluster: at most " +
           std::to_string(cluster_max_columns(problem.logits, problem.streams, problem.rounds)) +
           "; use path split or team";
  }
  return "";
}

}  // namespace vocabloss::Impl

#endif
