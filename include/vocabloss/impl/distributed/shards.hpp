// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_SHARDS_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_SHARDS_HPP

/// \file
/// \brief The shards of all ranks, and how many rows to exchange at a time.

#include <vocabloss/comm/partition.hpp>
#include <vocabloss/error.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace vocabloss::Impl {

/// Throws InvalidArgument unless the shards, in the order of their ranks, are the whole vocabulary without gap or
/// overlap. Each was validated by its rank, all with the same vocabulary.
inline void expect_tiling(const std::vector<VocabPartition>& shards) {
  std::int64_t next = 0;
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const VocabPartition& shard = shards[rank];
    if (shard.columns == 0) continue;  // an empty shard may say any place
    expects(shard.first == next, [&] {
      return "the shards must follow each other in the order of the ranks: rank " + std::to_string(rank) +
             " begins at column " + std::to_string(shard.first) + ", but the ranks before it end at " +
             std::to_string(next) +
             (shard.is_whole() ? ". It was given the whole vocabulary: pass this rank's shard, not gathered logits"
                               : "");
    });
    next += shard.columns;
  }
  expects(next == shards[0].vocab, [&] {
    return "the shards of all ranks hold " + std::to_string(next) + " columns together, but the vocabulary has " +
           std::to_string(shards[0].vocab);
  });
}

inline std::int64_t largest_shard(const std::vector<VocabPartition>& shards) {
  std::int64_t columns = 0;
  for (const VocabPartition& shard : shards) columns = std::max(columns, shard.columns);
  return columns;
}

/// Bytes of a block whose second read should come from a cache. A GPU of 50 MB of L2 has two blocks in flight, one
/// being read for the second time while the other is exchanged; a CPU has one.
inline constexpr std::int64_t device_block_bytes = std::int64_t(16) << 20;
inline constexpr std::int64_t host_block_bytes = std::int64_t(8) << 20;
/// Rows that keep a GPU busy: eight waves of two teams on each of 132 multiprocessors. With fewer, the end of every
/// kernel shows more than the cache saves. Evidence, 2 x H200, 2026-11-28, 4096 rows of bf16, reverse KL, NCCL, in a
/// CUDA graph: blocks of 264 rows 0.490 / 0.686 / 1.278 ms at (32768,2) / (65536,2) / (131072,2), where two_allreduce,
/// which takes all rows at once, took 0.271 / 0.535 / 1.146.
inline constexpr std::int64_t device_least_rows = 2048;

/// Rows of a block, the same on all ranks since it follows from the largest shard.
inline std::int64_t choose_block_rows(const Problem& problem, std::int64_t largest_columns, bool on_host) {
  std::int64_t bytes_per_row = largest_columns * size_of(problem.logits);
  if (problem.teacher) bytes_per_row += largest_columns * size_of(*problem.teacher);
  const std::int64_t budget = on_host ? host_block_bytes : device_block_bytes;
  const std::int64_t least = on_host ? 1 : device_least_rows;
  return std::max(least, budget / std::max<std::int64_t>(bytes_per_row, 1));
}

}  // namespace vocabloss::Impl

#endif
