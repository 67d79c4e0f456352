// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLUSTER_SHAPES_OVER_RANKS_HPP
#define VOCABLOSS_IMPL_CUDA_CLUSTER_SHAPES_OVER_RANKS_HPP

/// \file
/// \brief Which shape of path `cluster` a shard gets when its rows are exchanged between GPUs. While the next row
/// is summed the exchange passes unnoticed, so rows are cut over more blocks than alone, until two of them fit the
/// ring; or nearly, where more blocks would leave multiprocessors without a cluster.

#include <vocabloss/impl/cuda/cluster_shapes.hpp>

#include <span>

namespace vocabloss::Impl {

/// Evidence, in the comments: ms of label cross-entropy, in two streams of reverse KL, over 2 ranks, by columns a rank;
/// forward + backward, 4096 rows of bf16 back to back, two NVIDIA H200, 2026-11-28, commit 4b45444. Shards of other
/// lengths than powers of two lose up to a third in a shape of the wrong width: where rows are so short that an
/// exchange takes longer than a row, the ranks wait for one another in turns.
/// Shapes of two groups, what they are compared with, and two streams of 65536 columns: two NVIDIA H200, 2026-11-29,
/// commit 1e4fa04.
inline constexpr ClusterChoice one_stream_over_ranks[] = {
    // 4096: 0.0413, 8192: 0.0494, 12288: 0.0625 ({256, 2, 2, 1, whole_row}: 0.0446, 0.0537, 0.0638)
    {14336, {128, 4, 2, 1, 2, 2}, rows_for_groups},
    {20480, {256, 2, 2, 1, whole_row}},       // 12288: 0.0674, 20000: 0.1000 ({.., 2}: 0.0909, 0.1174)
    {40960, {512, 2, 1, 1, whole_row}},       // 25152: 0.1238, 40000: 0.1724 ({512, 2, 1, 2, ..}: -, 0.2166)
    {106496, {512, 2, 1, 2, whole_row}},      // 75968: 0.3301, 100032: 0.4573 ({512, 2, 1, 4, ..}: 0.4622, 0.5015)
    {131072, {512, 2, 1, 4, whole_row}},      // 131072: 0.5417 ({512, 2, 1, 2, 2}: 0.5964)
    {any_length, {512, 2, 1, 8, whole_row}},  // not measured
};
inline constexpr ClusterChoice two_streams_over_ranks[] = {
    // 4096: 0.0506 ({256, 2, 2, 1, whole_row}: 0.0556); 8192: 0.0668, and soft CE 0.0730 (0.0680, 0.0716)
    {7168, {128, 2, 2, 1, 2, 2}, rows_for_groups},
    {12288, {256, 2, 2, 1, whole_row}},  // 8192: 0.0778, 12288: 0.0956 ({512, 2, 1, 1, ..}: 0.0953, 0.1345)
    {32500, {512, 2, 1, 1, whole_row}},  // 25152: 0.1913, 32064: 0.2693 ({512, 2, 1, 2, ..}: 0.3013, 0.2778)
    // 50257: 0.3971, 64128: 0.5264; 65536: 0.4518 ({512, 2, 1, 4, ..}: 0.7469, 0.5974; 0.4590)
    {65536, {512, 2, 1, 2, whole_row}},
    {131000, {512, 2, 1, 4, whole_row}},      // 75968: 0.7234, 128000: 1.1525 ({512, 2, 1, 8, ..}: 0.9192, 1.1979)
    {any_length, {512, 2, 1, 8, whole_row}},  // 131072: 1.0104 ({512, 2, 1, 4, 2}: 1.1392)
};

/// As choose_cluster_shape.
constexpr ClusterShape choose_cluster_shape_over_ranks(std::int64_t columns, DataType type, int streams, int rounds,
                                                       const ClusterShape& alone, std::int64_t rows = many_rows) {
  using Choices = std::span<const ClusterChoice>;
  const Choices choices = streams == 2 ? Choices(two_streams_over_ranks) : Choices(one_stream_over_ranks);
  const ClusterShape* found = rounds == 2 ? nullptr : first_cluster_shape(choices, columns, type, streams, rows);
  return found ? *found : alone;
}

}  // namespace vocabloss::Impl

#endif
