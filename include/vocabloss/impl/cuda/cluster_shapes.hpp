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

/// Evidence, in the comments: ms of forward + backward, 4096 rows of bf16, random normal logits; label cross-entropy,
/// in two streams reverse KL and soft cross-entropy, in two rounds JSD; one NVIDIA H200, 2026-11-28. On an H100, whose
/// memory is slower, not measured with these kernels.
inline constexpr ClusterChoice one_stream[] = {
    {8192, {256, 2, 2, 1, 2}},            // 0.0479 ({.., 0}: 0.0536, {512, 2, 1, 1, whole_row}: 0.0598)
    {20480, {256, 2, 2, 1, whole_row}},   // 16384: 0.0764, 20000: 0.0912 ({.., 2}: 0.0940)
    {24576, {256, 2, 2, 1, 2}},           // 24000: 0.1045 ({.., whole_row}: 0.1092)
    {40960, {512, 2, 1, 1, whole_row}},   // 32768: 0.1440, 40000: 0.1690 ({256, 2, 2, 2, whole_row}: 0.1434, 0.1686)
    {65000, {256, 2, 2, 2, 2}},           // 50257: 0.2237, 64000: 0.2638 ({512, 2, 1, 1, 2}: 0.2274, 0.2654)
    {65536, {512, 2, 1, 2, whole_row}},   // 0.2719 ({256, 2, 2, 2, 2}: 0.2782)
    {129024, {512, 2, 1, 2, 2}},          // 128256: 0.5291 ({256, 2, 2, 4, 2}: 0.5302)
    {131072, {512, 2, 1, 4, whole_row}},  // 0.5335 ({512, 2, 1, 2, 2}: 0.5387)
    {160000, {512, 2, 1, 2, 0}},          // 151936: 0.6140 ({512, 2, 1, 4, whole_row}: 0.6943)
    {261120, {512, 2, 1, 4, 2}},          // 200064: 0.8233, 256000: 1.0310 ({256, 2, 2, 8, 2}: 0.8231, 1.0321)
    {262144, {512, 2, 1, 8, whole_row}},  // 1.0636 ({512, 2, 1, 4, 2}: 1.0803)
    {393216, {512, 2, 1, 4, 2}},          // not measured
    {any_length, {512, 2, 1, 8, 2}},      // not measured
};
inline constexpr ClusterChoice two_streams[] = {
    {8192, {256, 2, 2, 1, 2}},    // 0.0623, 0.0645 ({.., 0}: 0.0716, 0.0786)
    {20480, {256, 2, 2, 1, 1}},   // 20000: 0.1407, 0.1456 ({512, 2, 1, 1, 2}: 0.1592, 0.1625)
    {28672, {512, 2, 1, 1, 2}},   // 24000: 0.1714, 0.1772 ({.., 1}: 0.1802, 0.1871)
    {40960, {512, 2, 1, 1, 1}},   // 32768: 0.2124, 0.2228, 40000: 0.2718, 0.2718 ({256, 2, 2, 2, 1}: 0.2727, 0.2818)
    {65000, {512, 2, 1, 2, 2}},   // 50257: 0.3960, 0.4344, 64000: 0.4376, 0.4366 ({.., 1}: 0.4405, 0.4512)
    {65536, {512, 2, 1, 2, 1}},   // 0.4352, 0.4645 ({.., 2}: 0.4457, 0.4572)
    {129024, {512, 2, 1, 4, 2}},  // 128256: 1.0023, 1.0671 ({256, 2, 2, 8, 2}: 1.0016, 1.1005)
    {131072, {512, 2, 1, 8, whole_row}},  // 0.9278, 0.9591 ({256, 2, 2, 8, 2}: 0.9488, 1.0230)
    {163840, {512, 2, 1, 4, 2}},          // 151936: 1.1700, 1.1836 ({256, 2, 2, 8, 2}: 1.1671, 1.2129)
    {any_length, {512, 2, 1, 8, 2}},      // 200064: 1.5081, 1.5791, 262144: 2.0637, 2.1047 ({.., 1}: 2.0480, 2.1632)
};
inline constexpr ClusterChoice two_rounds[] = {
    {20480, {256, 2, 2, 1, 0}},       // 8192: 0.1171, 16384: 0.1974 ({512, 2, 1, 1, 0}: 0.1610, 0.2400)
    {32768, {256, 2, 2, 2, 0}},       // 0.3798 ({512, 2, 1, 1, 0}: 0.3895)
    {40960, {512, 2, 1, 1, 0}},       // not measured
    {65536, {512, 2, 1, 2, 0}},       // 50257: 0.7678, 65536: 0.7971 ({256, 2, 2, 4, 0}: 0.7649, 0.8137)
    {131072, {256, 2, 2, 8, 0}},      // 1.6902 ({512, 2, 1, 4, 0}: 1.7806)
    {any_length, {512, 2, 1, 8, 0}},  // 262144: 3.6411
};

constexpr std::span<const ClusterChoice> cluster_choices(int streams, int rounds) {
  using Choices = std::span<const ClusterChoice>;
  return rounds == 2 ? Choices(two_rounds) : streams == 2 ? Choices(two_streams) : Choices(one_stream);
}

/// The first that is for rows of this length and holds one; null if none does.
constexpr const ClusterShape* first_cluster_shape(std::span<const ClusterChoice> choices, std::int64_t columns,
                                                  DataType type, int streams) {
  for (const ClusterChoice& choice : choices) {
    if (columns * size_of(type) / 2 <= choice.up_to && choice.shape.holds(vectors_of(columns, type), streams)) {
      return &choice.shape;
    }
  }
  return nullptr;
}

/// Null if no shape holds the row.
constexpr const ClusterShape* choose_cluster_shape(std::int64_t columns, DataType type, int streams, int rounds) {
  return first_cluster_shape(cluster_choices(streams, rounds), columns, type, streams);
}

/// Of a forward pass, which keeps no row for its gradient: the narrowest shape that holds one (131072 columns, label
/// cross-entropy, ms on that H200: 0.330, one twice as wide 0.419).
inline constexpr ClusterChoice narrow_first[] = {{any_length, {256, 2, 2, 1, whole_row}},
                                                 {any_length, {512, 2, 1, 1, whole_row}},
                                                 {any_length, {512, 2, 1, 2, whole_row}},
                                                 {any_length, {512, 2, 1, 4, whole_row}}};
constexpr ClusterShape choose_forward_cluster_shape(std::int64_t columns, DataType type, int streams, int rounds,
                                                    const ClusterShape& otherwise) {
  const ClusterShape* found = rounds == 2 ? nullptr : first_cluster_shape(narrow_first, columns, type, streams);
  return found ? *found : otherwise;
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
