// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLUSTER_CANDIDATES_HPP
#define VOCABLOSS_IMPL_CUDA_CLUSTER_CANDIDATES_HPP

/// \file
/// \brief The shapes of path `cluster` that a tuner tries for a row: what the table ships, at every width. Plain C++,
/// testable without a device.

#include <vocabloss/impl/cuda/cluster_shapes.hpp>
#include <vocabloss/tuning/cluster_shape.hpp>
#include <vocabloss/types.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vocabloss::Impl {

/// Each shape once, in the tables' order, narrow before wide, with none, some or all of the next row ahead, where it
/// holds a row of `columns`.
inline std::vector<ClusterShape> cluster_candidates(std::int64_t columns, DataType type, int streams, int rounds) {
  std::vector<ClusterShape> shapes;
  if (type == DataType::fp64) return shapes;
  const auto add = [&](ClusterShape shape) {
    if (!shape.holds(vectors_of(columns, type), streams)) return;
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
  };
  for (const ClusterChoice& choice : cluster_choices(streams, rounds)) {
    add(choice.shape);
    for (const int width : {1, 2, 4, 8}) {
      for (const int ahead : {0, 1, whole_row}) {
        ClusterShape shape = choice.shape;
        shape.width = width;
        shape.ahead = ahead;
        add(shape);
      }
    }
  }
  return shapes;
}

}  // namespace vocabloss::Impl

#endif
