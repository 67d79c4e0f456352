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
  EXPECT_EQ(shape.describe(), "width=4 ahead=1 threads=512 vectors=2 blocks=1");
  EXPECT_EQ(ClusterShape::parse(shape.describe()), shape);
  const ClusterShape of_groups{128, 4, 2, 1, 2, 2};
  EXPECT_EQ(of_groups.describe(), "width=1 ahead=2 threads=128 vectors=4 blocks=2 groups=2");
  EXPECT_EQ(ClusterShape::parse(of_groups.describe()), of_groups);
}

TEST(ClusterShapes, RefuseWhatTheyCannotRead) {
  for (const std::string text :
       {"", "width=4", "width=3 ahead=1 threads=512 vectors=2 blocks=1",
        "width=16 ahead=1 threads=512 vectors=2 blocks=1", "width=4 ahead=-1 threads=512 vectors=2 blocks=1",
        "width=4 ahead=1 threads=512 vectors=2 blocks=1 and more", "width=4 ahead=1 threads=512 vectors=2 blocks=1 ",
        "width=4 ahead=1 threads=512 vectors=2 blocks=1 groups=",
        "width=4 ahead=1 threads=512 vectors=2 blocks=1 groups=0",
        "width=4 ahead=1 threads=128 vectors=2 blocks=1 groups=2 and more",
        "width=4 ahead=1 threads=0 vectors=2 blocks=1"}) {
    try {
      ClusterShape::parse(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("\"" + text + "\""), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("width=1 ahead=0"), std::string::npos) << error.what();
    }
  }
}

/// Streams and rounds of the shipped losses.
struct Kind {
  int streams, rounds;
};
constexpr Kind kinds[] = {{1, 1}, {2, 1}, {2, 2}};
constexpr DataType types[] = {DataType::bf16, DataType::fp16, DataType::fp32};

TEST(ClusterShapes, HoldTheRowsThatGetThem) {
  for (const Kind& kind : kinds) {
    for (const DataType type : types) {
      const std::int64_t most = Impl::cluster_max_columns(type, kind.streams, kind.rounds);
      for (std::int64_t columns = 0; columns <= most; columns = columns * 9 / 8 + 1) {
        const ClusterShape* alone = choose_cluster_shape(columns, type, kind.streams, kind.rounds);
        ASSERT_NE(alone, nullptr) << columns;
        const std::int64_t vectors = Impl::vectors_of(columns, type);  // wherever the row starts
        EXPECT_TRUE(alone->holds(vectors, kind.streams)) << alone->describe();
        const ClusterShape shared = choose_cluster_shape_over_ranks(columns, type, kind.streams, kind.rounds, *alone);
        EXPECT_TRUE(shared.holds(vectors, kind.streams)) << shared.describe();
      }
      EXPECT_EQ(choose_cluster_shape(most + 1, type, kind.streams, kind.rounds), nullptr);
    }
  }
}

/// Rows stream through a block each, unless there are too few of them; two rounds keep the rows.
TEST(ClusterShapes, OfAForwardPassGrowWiderOnlyWhereRowsAreFew) {
  for (const Kind& kind : kinds) {
    for (const DataType type : types) {
      for (const std::int64_t columns : {1, 8192, 50257, 131072}) {
        const ClusterShape* alone = choose_cluster_shape(columns, type, kind.streams, kind.rounds);
        ASSERT_NE(alone, nullptr) << columns;
        int wider = 8;
        for (const std::int64_t rows : {1, 128, 300, 600, 4096}) {
          const ClusterShape forward =
              Impl::choose_forward_cluster_shape(columns, rows, type, kind.streams, kind.rounds, *alone);
          if (kind.rounds == 2) {
            EXPECT_EQ(forward, *alone);
            continue;
          }
          EXPECT_LE(forward.width, wider) << columns << " columns, " << rows << " rows";
          wider = forward.width;
          const vocabloss::ClusterCut row = forward.cut(Impl::vectors_of(columns, type), kind.streams, 96 * 1024);
          EXPECT_GE(row.slots, 2) << forward.describe();  // one to sum, one to load into
          if (forward.width > 1) {
            EXPECT_GT(2 * row.slice_vectors, forward.piece_vectors()) << forward.describe();
          }
        }
        if (kind.rounds == 1) {
          EXPECT_EQ(wider, 1) << columns << " columns";
        }
      }
      if (kind.rounds == 1) {
        const ClusterShape* alone = choose_cluster_shape(131072, type, kind.streams, kind.rounds);
        EXPECT_GT(Impl::choose_forward_cluster_shape(131072, 128, type, kind.streams, kind.rounds, *alone).width, 1);
      }
    }
  }
}

/// A row of so many vectors lies in its slots once, whatever its length.
TEST(ClusterShapes, CutRowsWithoutGapsOrTinyPieces) {
  for (const ClusterShape shape : {ClusterShape{256, 2, 2, 1, 0}, {512, 2, 1, 2, 1}, {512, 2, 1, 8, 0}}) {
    for (std::int64_t vectors = 1; vectors < 40000; vectors = vectors * 17 / 16 + 1) {
      const ClusterCut row = shape.cut(vectors, 2, 200 * 1024);
      EXPECT_GE(row.slice_vectors * shape.width, vectors);
      const std::int64_t in_last = row.slice_vectors - (row.pieces - 1) * shape.piece_vectors();
      EXPECT_GT(in_last, 0) << vectors;
      EXPECT_LE(in_last, row.slot_vectors) << vectors;
      EXPECT_LE(row.slots * 2 * ClusterShape::region_bytes(row.slot_vectors), 200 * 1024) << vectors;
      if (row.pieces < row.slots - 1 && row.pieces > 1) {
        EXPECT_GT(in_last, shape.piece_vectors() / 4) << vectors;
      }
    }
  }
}

/// Rows too few for a launch beside the clusters get a shape that is better without one; some shape holds them all.
TEST(ClusterShapes, OfFewRowsMayBeOthers) {
  for (const Kind& kind : kinds) {
    for (const DataType type : types) {
      const std::int64_t most = Impl::cluster_max_columns(type, kind.streams, kind.rounds);
      for (std::int64_t columns = 1; columns <= most; columns = columns * 9 / 8 + 1) {
        const ClusterShape* few = choose_cluster_shape(columns, type, kind.streams, kind.rounds, 1);
        ASSERT_NE(few, nullptr) << columns;
        EXPECT_TRUE(few->holds(Impl::vectors_of(columns, type), kind.streams)) << few->describe();
      }
    }
  }
  EXPECT_EQ(choose_cluster_shape(8192, DataType::bf16, 1, 1, Impl::rows_for_groups)->groups, 2);
  EXPECT_EQ(choose_cluster_shape(8192, DataType::bf16, 1, 1, Impl::rows_for_groups - 1)->groups, 1);
  EXPECT_EQ(choose_cluster_shape(131072, DataType::bf16, 2, 1, Impl::rows_for_all)->threads, 512);
  EXPECT_EQ(choose_cluster_shape(131072, DataType::bf16, 2, 1, Impl::rows_for_all - 1)->threads, 256);
}

/// Each group's row has slots of its own, so that no group waits for another to finish.
TEST(ClusterShapes, OfGroupsHoldARowForEach) {
  const ClusterShape alone{128, 2, 2, 1, 2, 1}, of_groups{128, 2, 2, 1, 2, 2};
  std::int64_t most = 0, most_of_groups = 0;
  for (std::int64_t vectors = 1; vectors < 4096; ++vectors) {
    if (alone.holds(vectors, 2)) most = vectors;
    if (of_groups.holds(vectors, 2)) most_of_groups = vectors;
  }
  EXPECT_GT(most_of_groups, 0);
  EXPECT_LE(2 * most_of_groups, most + alone.piece_vectors());
}

TEST(ClusterShapes, ReachTheLongestVocabularies) {
  EXPECT_GE(Impl::cluster_max_columns(DataType::bf16, 1, 1), 524288);
  EXPECT_GE(Impl::cluster_max_columns(DataType::bf16, 2, 1), 262144);
}

/// Two rows fit the ring wherever the table says that the next one is summed ahead.
TEST(ClusterShapes, HideTheExchangeWhereTwoRowsFit) {
  for (const std::int64_t columns : {8192, 16384, 32768, 65536}) {
    for (const int streams : {1, 2}) {
      const ClusterShape* alone = choose_cluster_shape(columns, DataType::bf16, streams, 1);
      const ClusterShape shared = choose_cluster_shape_over_ranks(columns, DataType::bf16, streams, 1, *alone);
      const int ring_bytes = Impl::cluster_shared_bytes(shared.blocks) - Impl::cluster_control_bytes;
      const ClusterCut row = shared.cut(columns / 8, streams, ring_bytes);
      EXPECT_GE(shared.ahead, row.pieces) << columns << " columns: " << shared.describe();
      if (columns == 65536 && streams == 2) {
        // Four blocks a row would have room for two rows, but fewer multiprocessors: two blocks have it for half of
        // one.
        EXPECT_GE(2 * row.slots, 3 * row.pieces) << shared.describe();
      } else {
        EXPECT_TRUE(shared.holds(2 * columns / 8, streams)) << columns << " columns: " << shared.describe();
      }
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
