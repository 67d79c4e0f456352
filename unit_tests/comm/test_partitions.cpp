// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// How a vocabulary is cut, checked without ranks.

#include <gtest/gtest.h>
#include <vocabloss/impl/distributed/shards.hpp>

#include <string>
#include <vector>

namespace {

using vocabloss::InvalidArgument;
using vocabloss::VocabPartition;
using vocabloss::Impl::expect_tiling;

std::vector<VocabPartition> even_shards(std::int64_t vocab, int ranks) {
  std::vector<VocabPartition> shards;
  for (int rank = 0; rank < ranks; ++rank) shards.push_back(VocabPartition::even(vocab, ranks, rank));
  return shards;
}

TEST(Partitions, EvenShardsTile) {
  for (const std::int64_t vocab : {1, 2, 9, 50257, 131072}) {
    for (const int ranks : {1, 2, 3, 4, 8, 17}) {
      const auto shards = even_shards(vocab, ranks);
      EXPECT_NO_THROW(expect_tiling(shards));
      for (const VocabPartition& shard : shards) {
        EXPECT_NO_THROW(shard.validate());
        EXPECT_LE(shards[0].columns - shard.columns, 1);
      }
    }
  }
}

TEST(Partitions, EvenShardsOfKnownSizes) {
  const auto shards = even_shards(9, 4);
  EXPECT_EQ(shards[0], (VocabPartition{9, 0, 3}));
  EXPECT_EQ(shards[3], (VocabPartition{9, 7, 2}));
  EXPECT_EQ(VocabPartition::even(50257, 2, 1), (VocabPartition{50257, 25129, 25128}));
  EXPECT_EQ(VocabPartition::even(2, 4, 3), (VocabPartition{2, 2, 0}));
}

TEST(Partitions, EmptyShardsMayLieAnywhere) {
  EXPECT_NO_THROW(expect_tiling({{9, 0, 4}, {9, 4, 4}, {9, 8, 1}, {9, 0, 0}}));
  EXPECT_NO_THROW(expect_tiling({{9, 9, 0}, {9, 0, 9}, {9, 3, 0}}));
}

TEST(Partitions, GapsOverlapsAndMissingColumnsAreRefused) {
  EXPECT_THROW(expect_tiling({{9, 0, 4}, {9, 5, 4}}), InvalidArgument);
  EXPECT_THROW(expect_tiling({{9, 0, 5}, {9, 4, 5}}), InvalidArgument);
  EXPECT_THROW(expect_tiling({{9, 0, 4}, {9, 4, 4}}), InvalidArgument);
  EXPECT_THROW(expect_tiling({{9, 4, 5}, {9, 0, 4}}), InvalidArgument);
  EXPECT_THROW(expect_tiling({{9, 0, 9}, {9, 0, 9}}), InvalidArgument);
}

TEST(Partitions, BlocksOfRowsFollowTheCache) {
  vocabloss::Problem problem;
  problem.logits = vocabloss::DataType::bf16;
  problem.teacher = vocabloss::DataType::bf16;
  using namespace vocabloss::Impl;
  EXPECT_EQ(choose_block_rows(problem, 32768, true), host_block_bytes / (4 * 32768));
  EXPECT_EQ(choose_block_rows(problem, 1 << 30, true), 1);
  EXPECT_EQ(choose_block_rows(problem, 1 << 30, false), device_least_rows);
  EXPECT_GT(choose_block_rows(problem, 0, true), 1 << 20);
}

}  // namespace
