// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLUSTER_SHAPES_HPP
#define VOCABLOSS_IMPL_CUDA_CLUSTER_SHAPES_HPP

/// \file
/// \brief Which shape of path `cluster` a row gets, and where the path ends. Plain arithmetic, testable without a
/// device.

#include <vocabloss/tuning/cluster_shape.hpp>
#include <vocabloss/types.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace vocabloss::Impl {

/// Vectors of 16 bytes that a row touches at most, wherever it starts.
constexpr std::int64_t vectors_of(std::int64_t columns, DataType type) {
  const int lanes = 16 / size_of(type);
  return (columns + lanes - 1 + lanes - 1) / lanes;
}

/// The candidates in the order in which they are tried: a row gets the first whose `up_to` it does not exceed, and
/// which holds it. `up_to` counts bf16 columns; float columns count double. A vocabulary between two lines is not worse
/// off: neighbouring shapes differ by a few per cent, except where two rows all but fill the ring.
///
/// Evidence, in the comments: share of a streaming kernel in the same loop (reverse KL, label cross-entropy and JSD;
/// forward + backward, 4096 rows of bf16, random normal logits), one H100 80GB HBM3, 2026-11-28.
struct ClusterChoice {
  std::int64_t up_to;
  ClusterShape shape;
};

inline constexpr std::int64_t any_length = INT64_C(1) << 40;

inline constexpr std::array<ClusterChoice, 7> one_stream_choices = {{
    {16384, {256, 2, 2, 1, 1}},       // 8192: 0.89, 16384: 0.99 ({512, 2, 1, 1, 1}: 0.95)
    {32768, {512, 2, 1, 1, 1}},       // 32768: 1.02 ({256, 4, 1, 1, 1}: 1.01, {256, 2, 2, 1, 0}: 1.00)
    {57344, {512, 2, 1, 1, 0}},       // 50257: 1.00 ({512, 2, 1, 2, 1}: 0.98)
    {65536, {512, 2, 1, 2, 1}},       // 65536: 1.02 ({512, 2, 1, 1, 0}: 1.01)
    {131072, {512, 2, 1, 2, 0}},      // 131072: 1.01
    {262144, {512, 2, 1, 4, 0}},      // 262144: 1.02 ({512, 2, 1, 8, 1}: 1.02)
    {any_length, {512, 2, 1, 8, 0}},  // not measured
}};
inline constexpr std::array<ClusterChoice, 7> two_stream_choices = {{
    {8192, {256, 2, 2, 1, 1}},        // 8192: 0.86 ({256, 2, 1, 1, 2}: worse)
    {16384, {256, 2, 2, 1, 0}},       // 16384: 0.94 ({256, 2, 1, 1, 1}: 0.84)
    {32768, {256, 4, 1, 1, 0}},       // 32768: 0.98 ({256, 2, 2, 2, 0}: 0.96, {256, 2, 1, 2, 1}: 0.85)
    {65536, {256, 4, 1, 2, 0}},       // 50257: 0.85, 50304: 0.90, 65536: 0.98 ({512, 2, 1, 2, 0}: 0.91)
    {131072, {256, 2, 2, 8, 0}},      // 131072: 0.96, forward KL 0.95 ({256, 4, 1, 4, 0}: 0.95, 0.87)
    {any_length, {256, 4, 1, 8, 0}},  // 262144: 0.90
    {any_length, {256, 2, 1, 8, 0}},  // not measured: smaller slots, so more of the ring in use
}};
inline constexpr std::array<ClusterChoice, 7> two_round_choices = {{
    {16384, {256, 2, 2, 1, 0}},       // 8192: 0.53, 16384: 0.61
    {32768, {256, 2, 2, 2, 0}},       // 32768: 0.61
    {40960, {256, 4, 1, 1, 0}},       // not measured
    {65536, {256, 2, 2, 4, 0}},       // 65536: 0.63 ({256, 4, 1, 2, 0}: 0.61)
    {131072, {256, 2, 2, 8, 0}},      // 131072: 0.62 ({256, 4, 1, 4, 0}: 0.56)
    {any_length, {256, 4, 1, 8, 0}},  // 262144: 0.54
    {any_length, {256, 2, 1, 8, 0}},  // not measured
}};

constexpr const std::array<ClusterChoice, 7>& cluster_choices(int streams, int rounds) {
  return rounds == 2 ? two_round_choices : streams == 2 ? two_stream_choices : one_stream_choices;
}

/// Null if no shape holds the row.
constexpr const ClusterShape* choose_cluster_shape(std::int64_t columns, DataType type, int streams, int rounds) {
  for (const ClusterChoice& choice : cluster_choices(streams, rounds)) {
    if (columns * size_of(type) / 2 <= choice.up_to && choice.shape.holds(vectors_of(columns, type), streams)) {
      return &choice.shape;
    }
  }
  return nullptr;
}

/// The longest row that some shape holds.
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
