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

/// Each shape once, in the table's order, narrow before wide, where it holds a row of `columns` that starts on a
/// vector. A row that starts elsewhere may take a piece more: the plan then refuses the shape.
inline std::vector<ClusterShape> cluster_candidates(std::int64_t columns, DataType type, int streams, int rounds) {
  std::vector<ClusterShape> shapes;
  const int lanes = 16 / size_of(type);
  if (lanes < 1 || type == DataType::fp64) return shapes;
  for (const ClusterChoice& choice : cluster_choices(streams, rounds)) {
    for (const int width : {1, 2, 4, 8}) {
      ClusterShape shape = choice.shape;
      shape.width = width;
      if (!shape.holds((columns + lanes - 1) / lanes, streams, rounds)) continue;
      if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
    }
  }
  return shapes;
}

}  // namespace vocabloss::Impl

#endif
