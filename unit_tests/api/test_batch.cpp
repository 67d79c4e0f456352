// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Small promises of Batch, Plan and VocabPartition: what may be left out, what a plan tells about itself, how a
// vocabulary is cut.

#include <gtest/gtest.h>

#include <vocabloss/vocabloss.hpp>

#include <cmath>

namespace {

using namespace vocabloss;
using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;
using Matrix = Kokkos::View<float**, Kokkos::LayoutRight, Memory>;

struct Calls : ::testing::Test {
  Matrix x{"x", 3, 8};  // zeros: every loss is known
  Kokkos::View<int*, Memory> labels{"labels", 3};
  Kokkos::View<Summary<float>, Memory> summary{"summary"};

  Summary<float> sums() const { return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), summary)(); }
};

TEST_F(Calls, ASummaryNeedsNoLosses) {
  Batch<float> batch;
  batch.logits(x).labels(labels).summary(summary).divisor(3);
  for (const Path path : {Path::team, Path::reference, Path::naive}) {
    Kokkos::deep_copy(summary, Summary<float>{{-1, -1}, -1, -1});
    forward<loss::CrossEntropy>(Exec(), batch, {}, {.path = path});
    EXPECT_NEAR(sums().sum[0], std::log(8.0), 1e-6) << name_of(path);
    EXPECT_EQ(sums().valid_rows, 3);
    EXPECT_EQ(sums().invalid_labels, 0);
  }
}

TEST_F(Calls, LossesNeedNoGradientAndGradientsNoLosses) {
  const Kokkos::View<float*, Memory> losses("losses", 3);
  const Matrix dx("dx", 3, 8);
  Batch<float> only_losses, only_gradient;
  only_losses.logits(x).labels(labels).losses(losses);
  only_gradient.logits(x).labels(labels).gradient(dx);
  forward<loss::CrossEntropy>(Exec(), only_losses);
  forward_backward<loss::CrossEntropy>(Exec(), only_gradient);
  EXPECT_NEAR(Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), losses)(2), std::log(8.0), 1e-6);
  const auto gradient = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), dx);
  EXPECT_NEAR(gradient(2, 0), -7. / 8, 1e-6);
  EXPECT_NEAR(gradient(2, 7), 1. / 8, 1e-6);
}

/// Upstream gradients belong to the backward: a later one may bring others.
TEST_F(Calls, OneForwardServesManyBackwards) {
  const Matrix dx("dx", 3, 8);
  Batch<float> batch;
  batch.logits(x).labels(labels).gradient(dx);
  const Plan<loss::CrossEntropy, float> plan(Exec(), batch);
  plan.forward(Exec(), batch.upstream(std::nan("")));
  for (const double upstream : {1.0, -3.0, 0.0}) {
    plan.backward(Exec(), batch.upstream(upstream));
    Kokkos::fence();
    EXPECT_NEAR(Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), dx)(1, 3), upstream / 8, 1e-6);
  }
}

/// Peak memory is the caller's logits plus a few numbers a row.
TEST_F(Calls, A59_PathTeamNeedsNoRoomForRows) {
  Batch<float> batch;
  batch.logits(x).labels(labels).gradient(x);
  const Plan<loss::CrossEntropy, float> plan(Exec(), batch, {}, {.path = Path::team});
  EXPECT_EQ(plan.workspace_bytes(), 0u);
  EXPECT_LE(plan.statistics_per_row, 8);
}

TEST_F(Calls, APlanTellsWhatItChose) {
  Batch<float> batch;
  batch.logits(x).labels(labels).gradient(x);
  const Plan<loss::CrossEntropy, float> plan(Exec(), batch, {}, {.path = Path::team, .block_cap = 64});
  EXPECT_EQ(plan.launch().path, Path::team);
  EXPECT_GE(plan.launch().block_cap, 64);
  EXPECT_GE(plan.launch().team_size, 1);
  EXPECT_EQ(plan.launch().describe().rfind("team block_cap=", 0), 0u) << plan.launch().describe();
  EXPECT_TRUE(plan.problem().in_place);
  EXPECT_EQ(plan.problem().partition, VocabPartition::whole(8));
  const Plan<loss::CrossEntropy, float> chosen(Exec(), batch);
  EXPECT_NE(chosen.launch().path, Path::automatic);
}

TEST(Partitions, A47_A48_EvenShardsCoverTheVocabularyOnce) {
  for (const std::int64_t vocab : {1, 7, 9, 50257}) {
    for (const int ranks : {1, 2, 4, 8, 13}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const VocabPartition shard = VocabPartition::even(vocab, ranks, rank);
        EXPECT_NO_THROW(shard.validate());
        EXPECT_EQ(shard.first, next);
        EXPECT_LE(shard.columns, vocab / ranks + 1);
        next += shard.columns;
      }
      EXPECT_EQ(next, vocab);
    }
  }
  EXPECT_TRUE(VocabPartition::even(9, 1, 0).is_whole());
  EXPECT_FALSE(VocabPartition::even(9, 2, 0).is_whole());
}

}  // namespace
