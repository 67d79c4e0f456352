// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLUSTER_SHAPES_OVER_RANKS_HPP
#define VOCABLOSS_IMPL_CUDA_CLUSTER_SHAPES_OVER_RANKS_HPP

/// \file
/// \brief Which shape of path `cluster` a shard gets when its rows are exchanged between GPUs. While the next row
/// is summed the exchange passes unnoticed, so rows are cut over more blocks than alone, until two of them fit the
/// ring.

#include <vocabloss/impl/cuda/cluster_shapes.hpp>

#include <array>
#include <span>

namespace vocabloss::Impl {

/// Evidence, in the comments: ms of label cross-entropy, in two streams reverse KL and soft cross-entropy, over 2
/// ranks; forward + backward, 4096 rows of bf16 back to back, two NVIDIA H200, 2026-11-28.
inline constexpr std::array<ClusterChoice, 5> one_stream_choices_over_ranks = {{
    {16384, {256, 2, 2, 1, whole_row}},  // 16384: 0.0993 ({512, 2, 1, 1, whole_row}: 0.1159)
    {32768, {512, 2, 1, 1, whole_row}},  // 0.1473 ({256, 2, 2, 1, 2}: 0.1570)
    {65536, {512, 2, 1, 2, whole_row}},  // 0.2813 ({512, 2, 1, 1, 3}: 0.3108)
    {131072, {512, 2, 1, 4, whole_row}},
    {any_length, {512, 2, 1, 8, whole_row}},
}};
inline constexpr std::array<ClusterChoice, 5> two_stream_choices_over_ranks = {{
    {8192, {256, 2, 2, 1, whole_row}},
    {16384, {512, 2, 1, 1, whole_row}},  // 0.1412, 0.1421 ({256, 2, 2, 1, 2}: 0.1408, 0.1521)
    {32768, {512, 2, 1, 2, whole_row}},  // 0.2712, 0.2753 ({256, 2, 2, 2, 2}: 0.2830, 0.3098)
    {65536, {512, 2, 1, 4, whole_row}},  // 0.6023, 0.6131 ({512, 2, 1, 2, 1}: 0.5934, 0.6123)
    {any_length, {512, 2, 1, 8, whole_row}},
}};

/// As choose_cluster_shape.
constexpr ClusterShape choose_cluster_shape_over_ranks(std::int64_t columns, DataType type, int streams, int rounds,
                                                       const ClusterShape& alone) {
  const auto choices =
      streams == 2 ? std::span(two_stream_choices_over_ranks) : std::span(one_stream_choices_over_ranks);
  const ClusterShape* found = rounds == 2 ? nullptr : first_cluster_shape(choices, columns, type, streams);
  return found ? *found : alone;
}

}  // namespace vocabloss::Impl

#endif
