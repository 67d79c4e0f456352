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
/// in two streams reverse KL and soft cross-entropy, in two rounds JSD; one NVIDIA H200, 2026-11-28, commit 4b45444,
/// where soft cross-entropy summed fewer rows twice; one stream of 16384 to 24000, 40000, 64000, 128256 and 151936 to
/// 256000 columns, 3ddd845. On an H100, whose memory is slower, not measured with these kernels.
inline constexpr ClusterChoice one_stream[] = {
    {8192, {256, 4, 2, 1, 2}},            // 0.0449 ({256, 2, 2, 1, 2}: 0.0480, {512, 2, 1, 1, 2}: 0.0596)
    {20480, {256, 2, 2, 1, whole_row}},   // 16384: 0.0764, 20000: 0.0912 ({.., 2}: 0.0940)
    {24576, {256, 2, 2, 1, 2}},           // 24000: 0.1045 ({.., whole_row}: 0.1092)
    {40960, {256, 2, 2, 2, whole_row}},   // 32768: 0.1376, 40000: 0.1686 ({512, 2, 1, 1, whole_row}: 0.1391, 0.1690)
    {65000, {256, 2, 2, 2, 2}},           // 50257: 0.2143, 64000: 0.2638 ({512, 2, 1, 1, 2}: 0.2167, 0.2654)
    {65536, {512, 2, 1, 2, whole_row}},   // 0.2649 ({.., 2}: 0.2685, {256, 2, 2, 2, 2}: 0.2735)
    {129024, {512, 2, 1, 2, 2}},          // 128256: 0.5291 ({256, 2, 2, 4, 2}: 0.5302)
    {131072, {512, 2, 1, 4, whole_row}},  // 0.5288 ({512, 2, 1, 2, 2}: 0.5342)
    {160000, {512, 2, 1, 2, 0}},          // 151936: 0.6140 ({512, 2, 1, 4, whole_row}: 0.6943)
    {261120, {512, 2, 1, 4, 2}},          // 200064: 0.8233, 256000: 1.0310 ({256, 2, 2, 8, 2}: 0.8231, 1.0321)
    {262144, {512, 2, 1, 8, whole_row}},  // 1.0584 ({512, 2, 1, 4, 2}: 1.0556)
    {393216, {512, 2, 1, 4, 2}},          // not measured
    {any_length, {512, 2, 1, 8, 2}},      // not measured
};
inline constexpr ClusterChoice two_streams[] = {
    {8192, {256, 2, 2, 1, 2}},    // 0.0617, 0.0640 ({.., 1}: 0.0650, 0.0675)
    {20480, {256, 2, 2, 1, 1}},   // 16384: 0.1062, 0.1105, 20000: 0.1414, 0.1434 ({.., 2}: 0.1425, 0.1449)
    {28672, {512, 2, 1, 1, 2}},   // 24000: 0.1759, 0.1820 ({.., 1}: 0.1747, 0.1836)
    {40960, {512, 2, 1, 1, 1}},   // 32768: 0.2080, 0.2088, 40000: 0.2726, 0.2724 ({256, 2, 2, 2, 1}: 0.2031, 0.2141)
    {65000, {512, 2, 1, 2, 2}},   // 50257: 0.3469, 0.3633, 64000: 0.4405, 0.4402 ({.., 1}: 0.4324, 0.4501)
    {65536, {512, 2, 1, 2, 1}},   // 0.4051, 0.4172 ({256, 2, 2, 4, 1}: 0.4158, 0.4401)
    {129024, {512, 2, 1, 4, 2}},  // 100000: 0.7120, 0.7650, 128256: 0.9322, 0.9344 ({256, 2, 2, 8, 2}: 0.9108, 0.9502)
    {131072, {256, 2, 2, 8, 2}},  // 0.8601, 0.8892 ({.., 1}: 0.8484, 0.8975, {512, 2, 1, 4, 1}: 0.8643, 0.9043)
    {163840, {512, 2, 1, 4, 2}},  // 151936: 1.1465, 1.1650 ({256, 2, 2, 8, 1}: 1.1413, 1.1799)
    {229376, {512, 2, 1, 8, 2}},  // 200064: 1.4142, 1.5322 ({.., 1}: 1.5142, 1.6416)
    {any_length, {512, 2, 1, 8, 1}},  // 262144: 1.7475, 1.8210 ({.., 2}: 1.8153, 1.8085)
};
inline constexpr ClusterChoice two_rounds[] = {
    {20480, {256, 2, 2, 1, 0}},       // 8192: 0.1169, 16384: 0.1902 ({512, 2, 1, 1, 0}: 0.1583, 0.2343)
    {40960, {256, 2, 2, 2, 0}},       // 32768: 0.3706, 40000: 0.4722 ({512, 2, 1, 1, 0}: 0.3808, 0.4850)
    {65536, {512, 2, 1, 2, 0}},       // 50257: 0.6764, 65536: 0.7670 ({256, 2, 2, 4, 0}: 0.6954, 0.7821)
    {131072, {256, 2, 2, 8, 0}},      // 1.5908 ({512, 2, 1, 4, 0}: 1.6764)
    {any_length, {512, 2, 1, 8, 0}},  // 262144: 3.3825
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

/// Blocks of all clusters at which rows, some of which take longer, still spread evenly: four for each that two blocks a
/// multiprocessor keep resident.
inline constexpr std::int64_t enough_blocks = 1024;

/// Of a forward pass, through which rows stream: a block takes a whole row, since every block of a cluster merges its
/// warps again; or a part of one, where there are few rows. (131072 columns, ms on that H200: label cross-entropy 0.245,
/// {256, 2, 2, 1, 0} 0.299; reverse KL 0.486, {256, 4, 2, 1, 0} 0.520.)
constexpr ClusterShape choose_forward_cluster_shape(std::int64_t columns, std::int64_t rows, DataType type, int streams,
                                                    int rounds, const ClusterShape& otherwise) {
  if (rounds == 2) return otherwise;
  ClusterShape shape{256, streams == 1 ? 4 : 2, 2, 1, 0};
  const std::int64_t vectors = vectors_of(columns, type);
  while (shape.width < 8 && rows * shape.width < enough_blocks && vectors > shape.width * shape.piece_vectors()) {
    shape.width *= 2;
  }
  return shape;
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
