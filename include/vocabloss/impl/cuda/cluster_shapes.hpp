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
/// which holds it. `up_to` counts bf16 columns; float columns count double. `from_rows`: not of fewer rows.
struct ClusterChoice {
  std::int64_t up_to;
  ClusterShape shape;
  std::int64_t from_rows = 0;
};

inline constexpr std::int64_t any_length = INT64_C(1) << 40;
/// Where nobody says how many.
inline constexpr std::int64_t many_rows = INT64_C(1) << 40;
/// Rows a cluster from which a launch on the multiprocessors that clusters leave over pays (cluster_launch.cuh).
/// (Reverse KL, 131072 columns of bf16, that launch over none, in turns, NVIDIA H200, 2026-11-29, a build on the way to
/// c4a4453: 512 rows 1.003, 1024 rows .990, 4096 rows .965.)
inline constexpr std::int64_t rows_worth_leftover = 32;
/// The same for the 30 clusters of four blocks that an H200 holds: a table is made without a device.
inline constexpr std::int64_t rows_for_all = 30 * rows_worth_leftover;

/// Rows from which two groups of consumers in each of two blocks a multiprocessor are worth having: an H200 then has
/// two rows for each. Fewer are done sooner where all of a block's consumers take one.
inline constexpr std::int64_t rows_for_groups = 1024;

/// Evidence, in the comments: ms of forward + backward, 4096 rows of bf16, random normal logits; in one stream label
/// cross-entropy and log-prob with entropy, in two streams reverse KL and soft cross-entropy, in two rounds JSD; one
/// NVIDIA H200, 2026-11-28, the last steps before commit dc17269 (8192 columns of one stream 13e77c0); one stream of
/// 20000 and 151936 columns, and {.., 1} of 200064 of earlier ones; two rounds 2026-11-29, builds on the way
/// to 38b2593. Two streams beyond 65536 columns, and two rounds of 131072, 2026-11-29, with a launch on the
/// multiprocessors that {512, 2, 1, 4 or 8} leave over (cluster_launch.cuh): they are then 3 to 8 % faster, to the same
/// bits (builds on the way to c4a4453, in which two warps of that launch's blocks exchanged, not one). Shapes of two
/// groups, {.., 2, 2} at their end, and what they are compared with: 2026-11-29, the build after e2bada7. On an H100,
/// whose memory is slower, not measured with these kernels.
inline constexpr ClusterChoice one_stream[] = {
    // 2048: 0.0277, 0.0337 ({256, 4, 2, 1, 2}: 0.0368, 0.0404)
    // 4096: 0.0291, 0.0336; 6144: 0.0424, 0.0474 ({256, 2, 2, 1, 2}: 0.0364, 0.0388; 0.0509, 0.0568)
    // 8192: 0.0409, 0.0430; 16384: 0.0736, 0.0742 ({256, 4, 2, 1, 2}: 0.0459, 0.0488; 0.0739, 0.0746)
    // 12288: 0.0571, 0.0577 ({256, 2, 2, 1, whole_row}: 0.0604, 0.0626)
    {16384, {128, 4, 2, 1, 2, 2}, rows_for_groups},
    {7168, {256, 2, 2, 1, 2}},            // 4096: 0.0364, 0.0395 ({256, 4, 2, 1, 2}: 0.0462, 0.0513)
    {8192, {256, 4, 2, 1, 2}},            // 0.0447, 0.0494 ({256, 2, 2, 1, 2}: 0.0480, 0.0527)
    {15360, {256, 2, 2, 1, whole_row}},   // 12288: 0.0610, 0.0642 ({256, 4, 2, 1, 2}: 0.0688, 0.0762)
    {16384, {256, 4, 2, 1, 2}},           // 0.0756, 0.0763 ({256, 2, 2, 1, whole_row}: 0.0755, 0.0785)
    {20480, {256, 2, 2, 1, whole_row}},   // 20000: 0.0912, - ({.., 2}: 0.0940, -)
    {24576, {256, 2, 2, 1, 2}},           // 24000: 0.1069, 0.1157 ({256, 4, 2, 1, 2}: 0.1083, 0.1239)
    {32768, {256, 2, 2, 2, whole_row}},   // 0.1420, 0.1437 ({512, 2, 1, 1, whole_row}: 0.1403, 0.1453)
    {40960, {256, 4, 2, 2, 2}},           // 40000: 0.1714, 0.1807 ({256, 2, 2, 2, whole_row}: 0.1726, 0.2063)
    {65000, {256, 2, 2, 2, 2}},           // 50257: 0.2160, 0.2230 ({512, 2, 1, 1, 2}: 0.2172, 0.2178)
    {65536, {512, 2, 1, 2, whole_row}},   // 0.2718, 0.2710 ({256, 4, 2, 4, whole_row}: 0.2766, 0.2760)
    {129024, {512, 2, 1, 2, 2}},          // 100000: 0.4121, 0.4119 ({256, 4, 2, 4, 1}: 0.4234, 0.4236)
    {131072, {256, 4, 2, 8, whole_row}},  // 0.5397, 0.5394 ({512, 2, 1, 4, whole_row}: 0.5331, 0.5555)
    {160000, {512, 2, 1, 2, 0}},          // 151936: 0.6140, - ({512, 2, 1, 4, whole_row}: 0.6943, -)
    {229376, {256, 4, 2, 8, 1}},          // 200064: 0.8134, 0.8161 ({512, 2, 1, 4, 2}: 0.7996, 0.8576)
    {393216, {512, 2, 1, 4, 2}},          // 262144: 1.0629, 1.0637 ({512, 2, 1, 8, whole_row}: 1.0637, 1.1025)
    {any_length, {512, 2, 1, 8, 2}},      // not measured
};
inline constexpr ClusterChoice two_streams[] = {
    // 2048: 0.0281, 0.0280; 4096: 0.0351, 0.0362 ({256, 2, 2, 1, 2}: 0.0455, 0.0450; 0.0404, 0.0417)
    // 6144: 0.0450, 0.0472; but 8192: 0.0601, 0.0621, and 5003: 0.0760, 0.0753, where all rows but each eighth start
    // within a granule (the same: 0.0621, 0.0645; 0.0568, 0.0598; 0.0698, 0.0718)
    {7168, {128, 2, 2, 1, 2, 2}, rows_for_groups},
    {8192, {256, 2, 2, 1, 2}},    // 0.0587, 0.0613 ({.., 1}: 0.0622, 0.0678)
    {28672, {256, 2, 2, 1, 1}},   // 16384: 0.1046, 0.1099, 24000: 0.1612, 0.1656 ({512, 2, 1, 1, 2}: 0.1640, 0.1747)
    {28672, {512, 2, 1, 1, 2}},   // what is too long for the one before
    {40960, {512, 2, 1, 1, 1}},   // 32768: 0.2020, 0.2062, 40000: 0.2642, 0.2662 ({256, 2, 2, 2, 1}: 0.1984, 0.2127)
    {65000, {512, 2, 1, 2, 2}},   // 50257: 0.3341, 0.3614 ({256, 2, 2, 4, 2}: 0.3905, 0.4096)
    {65536, {512, 2, 1, 2, 1}},   // 0.3973, 0.4164 ({256, 2, 2, 4, 1}: 0.4039, 0.4464)
    {129024, {512, 2, 1, 4, 2}},  // 100352: 0.6260, 0.6752, 128256: 0.8476, 0.8471
    {131072, {512, 2, 1, 4, 1}, rows_for_all},  // 0.8079, 0.8214 ({256, 2, 2, 8, 2}: 0.8478, 0.8755)
    {131072, {256, 2, 2, 8, 2}},                // reverse KL, 131 rows: 0.0351 ({512, 2, 1, 4, 1}: 0.0393)
    {163840, {512, 2, 1, 4, 2}},                // 151936: 1.0464, 1.0477
    {229376, {512, 2, 1, 8, 2}},                // 200064: 1.2803, 1.3540
    {any_length, {512, 2, 1, 8, 1}},            // 262144: 1.6436, 1.6592 ({.., 2}: 1.7088, 1.6968)
};
inline constexpr ClusterChoice two_rounds[] = {
    {12288, {256, 2, 2, 1, whole_row}},   // 8192: 0.1044, 12288: 0.1389 ({.., 2} of 12288: 0.1477)
    {20480, {256, 2, 2, 1, 2}},           // 16384: 0.1800, 20000: 0.2336 ({512, 2, 1, 1, whole_row}: 0.1826, 0.3119)
    {24576, {512, 2, 1, 1, whole_row}},   // 24576: 0.2564 ({.., 2}: 0.2750)
    {32768, {512, 2, 1, 1, 2}},           // 0.3448 ({256, 2, 2, 2, 2}: 0.3531)
    {40960, {256, 2, 2, 2, 2}},           // 40000: 0.4525 ({512, 2, 1, 1, 2}: 0.4552)
    {51200, {512, 2, 1, 2, whole_row}},   // 50257: 0.5717 ({.., 2}: 0.6320)
    {65536, {512, 2, 1, 2, 2}},           // 0.7011 ({256, 2, 2, 4, 1}: 0.7581)
    {102400, {512, 2, 1, 4, whole_row}},  // 100352: 1.2065 ({.., 2}: 1.3869)
    {163840, {512, 2, 1, 4, 2}, rows_for_all},  // 131072: 1.4052 ({256, 2, 2, 8, 2}: 1.4901)
    {131072, {256, 2, 2, 8, 2}},
    {163840, {256, 2, 2, 8, 1}},          // 151936: 1.9938 ({512, 2, 1, 4, 2} without a launch beside: 2.0215)
    {204800, {512, 2, 1, 8, whole_row}},  // 200064: 2.4021 ({.., 2}: 2.7584)
    {any_length, {512, 2, 1, 8, 2}},      // 262144: 3.2088 ({.., 0}: 3.4583)
};

constexpr std::span<const ClusterChoice> cluster_choices(int streams, int rounds) {
  using Choices = std::span<const ClusterChoice>;
  return rounds == 2 ? Choices(two_rounds) : streams == 2 ? Choices(two_streams) : Choices(one_stream);
}

/// The first that is for rows of this length and holds one; null if none does.
constexpr const ClusterShape* first_cluster_shape(std::span<const ClusterChoice> choices, std::int64_t columns,
                                                  DataType type, int streams, std::int64_t rows = many_rows) {
  for (const ClusterChoice& choice : choices) {
    if (columns * size_of(type) / 2 <= choice.up_to && rows >= choice.from_rows &&
        choice.shape.holds(vectors_of(columns, type), streams)) {
      return &choice.shape;
    }
  }
  return nullptr;
}

/// Null if no shape holds the row.
constexpr const ClusterShape* choose_cluster_shape(std::int64_t columns, DataType type, int streams, int rounds,
                                                   std::int64_t rows = many_rows) {
  return first_cluster_shape(cluster_choices(streams, rounds), columns, type, streams, rows);
}

/// Blocks of all clusters at which rows, some of which take longer, still spread evenly: four for each that two blocks
/// a multiprocessor keep resident.
inline constexpr std::int64_t enough_blocks = 1024;

/// Of a forward pass, through which rows stream: a block takes a whole row, since every block of a cluster merges its
/// warps again; or a part of one, where there are few rows. (131072 columns, ms on that H200: label cross-entropy
/// 0.240, {256, 2, 2, 1, 0} 0.298; reverse KL 0.473, {256, 4, 2, 1, 0} 0.520.)
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
