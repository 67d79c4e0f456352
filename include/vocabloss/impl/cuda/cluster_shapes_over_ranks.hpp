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

/// As choose_cluster_shape.
constexpr ClusterShape choose_cluster_shape_over_ranks(std::int64_t columns, DataType type, int streams, int rounds,
                                                       const ClusterShape& alone) {
  if (rounds == 2) return alone;
  const auto choose = [&](const auto& choices) {
    for (const ClusterChoice& choice : choices) {
      if (columns * size_of(type) / 2 <= choice.up_to && choice.shape.holds(vectors_of(columns, type), streams)) {
        return choice.shape;
      }
    }
    return alone;
  };
  return streams == 2 ? choose(two_stream_choices_over_ranks) : choose(one_stream_choices_over_ranks);
}

}  // namespace vocabloss::Impl

#endif
