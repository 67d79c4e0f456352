// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLUSTER_SHAPES_OVER_RANKS_HPP
#define VOCABLOSS_IMPL_CUDA_CLUSTER_SHAPES_OVER_RANKS_HPP

/// \file
/// \brief Which shape of path `cluster` a shard gets when its rows are exchanged between GPUs. With a lag of one row
/// the exchange passes unnoticed, so rows are cut over more blocks than alone, until two of them fit the ring.

#include <vocabloss/impl/cuda/cluster_shapes.hpp>

namespace vocabloss::Impl {

inline constexpr std::array<ClusterChoice, 5> one_stream_choices_over_ranks = {{
    {16384, {256, 2, 2, 1, 1}},
    {32768, {512, 2, 1, 1, 1}},
    {65536, {512, 2, 1, 2, 1}},
    {131072, {512, 2, 1, 4, 1}},
    {any_length, {512, 2, 1, 8, 1}},
}};
inline constexpr std::array<ClusterChoice, 5> two_stream_choices_over_ranks = {{
    {8192, {256, 2, 2, 1, 1}},
    {16384, {256, 2, 2, 2, 1}},
    {32768, {256, 4, 1, 2, 1}},
    {65536, {256, 4, 1, 4, 1}},
    {any_length, {256, 4, 1, 8, 1}},
}};

/// As choose_cluster_shape. A loss of two rounds exchanges twice a row, one round after the other: without a lag.
constexpr ClusterShape choose_cluster_shape_over_ranks(std::int64_t columns, DataType type, int streams, int rounds,
                                                       const ClusterShape& alone) {
  if (rounds == 2) return {alone.threads, alone.vectors, alone.blocks, alone.width, 0};
  const auto choose = [&](const auto& choices) {
    for (const ClusterChoice& choice : choices) {
      // A row that starts within a vector may take a piece more: a launch then goes with a smaller lag.
      const ClusterShape& shape = choice.shape;
      const ClusterShape without_lag{shape.threads, shape.vectors, shape.blocks, shape.width, 0};
      const int lanes = 16 / size_of(type);
      if (columns * size_of(type) / 2 <= choice.up_to && shape.holds((columns + lanes - 1) / lanes, streams, rounds) &&
          without_lag.holds(vectors_of(columns, type), streams, rounds)) {
        return choice.shape;
      }
    }
    return alone;
  };
  return streams == 2 ? choose(two_stream_choices_over_ranks) : choose(one_stream_choices_over_ranks);
}

}  // namespace vocabloss::Impl

#endif
