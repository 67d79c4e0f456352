// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Which shape of path cluster a row gets, alone and over ranks: plain arithmetic, checked where no GPU is.

#include <gtest/gtest.h>
#include <vocabloss/impl/cuda/cluster_shapes_over_ranks.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <string>

namespace {

using namespace vocabloss;
using vocabloss::Impl::choose_cluster_shape;
using vocabloss::Impl::choose_cluster_shape_over_ranks;

TEST(ClusterShapes, ReadWhatTheySay) {
  const ClusterShape shape{512, 2, 1, 4, 1};
  EXPECT_EQ(shape.describe(), "width=4 lag=1 threads=512 vectors=2 blocks=1");
  EXPECT_EQ(ClusterShape::parse(shape.describe()), shape);
}

TEST(ClusterShapes, RefuseWhatTheyCannotRead) {
  for (const std::string text :
       {"", "width=4", "width=3 lag=1 threads=512 vectors=2 blocks=1", "width=16 lag=1 threads=512 vectors=2 blocks=1",
        "width=4 lag=-1 threads=512 vectors=2 blocks=1", "width=4 lag=1 threads=512 vectors=2 blocks=1 and more"}) {
    try {
      ClusterShape::parse(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("\"" + text + "\""), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("width=1 lag=0"), std::string::npos) << error.what();
    }
  }
}

/// Streams and rounds of the shipped losses.
struct Kind {
  int streams, rounds;
};
constexpr Kind kinds[] = {{1, 1}, {2, 1}, {2, 2}};
constexpr DataType types[] = {DataType::bf16, DataType::fp16, DataType::fp32};

ClusterShape without_lag(ClusterShape shape) {
  shape.lag = 0;
  return shape;
}

TEST(ClusterShapes, HoldTheRowsThatGetThem) {
  for (const Kind& kind : kinds) {
    for (const DataType type : types) {
      const std::int64_t most = Impl::cluster_max_columns(type, kind.streams, kind.rounds);
      for (std::int64_t columns = 0; columns <= most; columns = columns * 9 / 8 + 1) {
        const ClusterShape* alone = choose_cluster_shape(columns, type, kind.streams, kind.rounds);
        ASSERT_NE(alone, nullptr) << columns;
        const std::int64_t vectors = Impl::vectors_of(columns, type);  // wherever the row starts
        EXPECT_TRUE(without_lag(*alone).holds(vectors, kind.streams, kind.rounds)) << alone->describe();
        const ClusterShape shared = choose_cluster_shape_over_ranks(columns, type, kind.streams, kind.rounds, *alone);
        EXPECT_TRUE(without_lag(shared).holds(vectors, kind.streams, kind.rounds)) << shared.describe();
        if (kind.rounds == 2) EXPECT_EQ(shared.lag, 0);
      }
      EXPECT_EQ(choose_cluster_shape(2 * most, type, kind.streams, kind.rounds), nullptr);
    }
  }
}

TEST(ClusterShapes, ReachTheLongestVocabularies) {
  EXPECT_GE(Impl::cluster_max_columns(DataType::bf16, 1, 1), 524288);
  EXPECT_GE(Impl::cluster_max_columns(DataType::bf16, 2, 1), 262144);
}

/// Shards of whole vectors keep the row of lag that hides the exchange.
TEST(ClusterShapes, HideTheExchangeWhereTwoRowsFit) {
  for (const std::int64_t columns : {8192, 16384, 32768, 65536}) {
    for (const int streams : {1, 2}) {
      const ClusterShape* alone = choose_cluster_shape(columns, DataType::bf16, streams, 1);
      const ClusterShape shared = choose_cluster_shape_over_ranks(columns, DataType::bf16, streams, 1, *alone);
      EXPECT_EQ(shared.lag, 1) << columns << " columns: " << shared.describe();
      EXPECT_LE(shared.width, 4) << columns << " columns: " << shared.describe();
    }
  }
}

TEST(ClusterShapes, SayWhyNot) {
  const Impl::ClusterProblem too_long{1 << 24, DataType::bf16, DataType::bf16, DataType::bf16, 2, 1, 90};
  EXPECT_NE(Impl::cluster_refusal(too_long).find("16777216 columns"), std::string::npos);
  const Impl::ClusterProblem other_teacher{32768, DataType::bf16, DataType::fp32, DataType::bf16, 2, 1, 90};
  EXPECT_NE(Impl::cluster_refusal(other_teacher).find("teacher"), std::string::npos);
  const Impl::ClusterProblem other_device{32768, DataType::bf16, DataType::bf16, DataType::bf16, 2, 1, 80};
  EXPECT_NE(Impl::cluster_refusal(other_device).find("sm_90"), std::string::npos);
  const Impl::ClusterProblem fits{32768, DataType::bf16, DataType::bf16, DataType::bf16, 2, 1, 90};
  EXPECT_EQ(Impl::cluster_refusal(fits), "");
}

}  // namespace
