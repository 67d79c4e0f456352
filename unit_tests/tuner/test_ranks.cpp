// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The tuner over ranks: one choice for all, by the slowest rank's times; the first rank's record speaks for all.

#include <gtest/gtest.h>
#include <vocabloss/comm/mpi.hpp>
#include <vocabloss/tuning/tune.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "tuned_problem.hpp"

namespace {

using namespace vocabloss;
using comm::Mpi;
using test::Exec;
using test::TunedProblem;

class TuneOverRanks : public testing::Test {
 protected:
  static constexpr int vocab = 5000;
  /// Uneven shards: each rank would choose for itself otherwise.
  VocabPartition partition() const {
    VocabPartition part = VocabPartition::even(vocab, mpi_.size(), mpi_.rank());
    if (mpi_.size() == 1) return part;
    if (mpi_.rank() == 0) part.columns -= 100;
    if (mpi_.rank() == 1) {
      part.first -= 100;
      part.columns += 100;
    }
    return part;
  }
  Batch<float, Exec> batch() const {
    Batch<float, Exec> batch = problem_.batch();
    Kokkos::deep_copy(problem_.labels, vocab - 1);
    batch.gradient(problem_.gradient).partition(partition());
    return batch;
  }
  void expect_alike(const std::string& text) const {
    const Impl::Together<Exec, Mpi> together(Exec(), mpi_);
    EXPECT_EQ(together.text_of_first(text), text) << "rank " << mpi_.rank();
  }
  static std::string text_of(const Tuning& tuning) {
    std::string text = Impl::describe_request(tuning.request, 2) + " " + std::to_string(tuning.time.median_ms);
    for (const TunedCandidate& candidate : tuning.candidates) {
      text += "; " + Impl::describe_request(candidate.request, 2);
      if (candidate.time) text += " " + std::to_string(candidate.time->median_ms);
    }
    return text;
  }

  mutable Mpi mpi_ = Mpi::duplicate(MPI_COMM_WORLD);
  TunedProblem<float> problem_{6, static_cast<int>(partition().columns)};
};

TEST_F(TuneOverRanks, AllChooseAlikeAndKeepTheirBuffers) {
  const std::string before = problem_.bytes();
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::forward_backward}) {
    const auto shard = batch();
    const std::string filled = problem_.bytes();
    const Tuning tuning = tune<loss::CrossEntropy>(Exec(), mpi_, shard, pass, {}, {.repeats = 3});
    EXPECT_TRUE(filled == problem_.bytes()) << name_of(pass);
    EXPECT_FALSE(tuning.from_record);
    expect_alike(text_of(tuning));
    // The choice runs on all.
    const Plan<loss::CrossEntropy, float, Exec, Mpi> plan(Exec(), mpi_, shard, {}, tuning.request);
    plan.forward(Exec(), shard);
    plan.wait(Exec());
    Kokkos::deep_copy(problem_.losses, -7.0f);
  }
}

TEST_F(TuneOverRanks, ExchangesAreCandidatesUnlessOneIsAskedFor) {
  if (mpi_.size() == 1) GTEST_SKIP() << "needs ranks";
  const auto exchanges = [&](const TuneOptions& how) {
    const Tuning tuning = tune<loss::CrossEntropy>(Exec(), mpi_, batch(), Pass::forward_backward, {}, how);
    std::vector<Exchange> found;
    for (const TunedCandidate& candidate : tuning.candidates) {
      if (candidate.time && candidate.request.path == Path::team) found.push_back(candidate.request.exchange);
    }
    return found;
  };
  const auto has = [](const std::vector<Exchange>& all, Exchange one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  const auto any = exchanges({.repeats = 1});
  EXPECT_TRUE(has(any, Exchange::allgather));
  EXPECT_TRUE(has(any, Exchange::two_allreduce));
  const auto one = exchanges({.exchange = Exchange::two_allreduce, .repeats = 1});
  EXPECT_FALSE(has(one, Exchange::allgather));
  EXPECT_TRUE(has(one, Exchange::two_allreduce));
}

TEST_F(TuneOverRanks, TheFirstRanksRecordSpeaksForAll) {
  TuningRecord record;
  TuneOptions how{.repeats = 1};
  if (mpi_.rank() == 0) how.record = &record;
  const Tuning first = tune<loss::CrossEntropy>(Exec(), mpi_, batch(), Pass::forward_backward, {}, how);
  EXPECT_FALSE(first.from_record);
  const Tuning second = tune<loss::CrossEntropy>(Exec(), mpi_, batch(), Pass::forward_backward, {}, how);
  EXPECT_TRUE(second.from_record);
  EXPECT_EQ(second.plan.empty(), false);
  EXPECT_EQ(second.request.path, first.request.path);
  EXPECT_EQ(second.request.block_cap, first.request.block_cap);
  EXPECT_EQ(second.request.exchange, first.request.exchange);
  expect_alike(text_of(second));
}

TEST_F(TuneOverRanks, WhatOneRankCannotDoAllRefuse) {
  if (mpi_.size() == 1) GTEST_SKIP() << "needs ranks";
  const bool is_last = mpi_.rank() == mpi_.size() - 1;
  TuneOptions how{.repeats = is_last ? 0 : 1};
  EXPECT_THROW(tune<loss::CrossEntropy>(Exec(), mpi_, batch(), Pass::forward, {}, how), InvalidArgument);
  how.repeats = 1;  // and are still in step
  EXPECT_FALSE(tune<loss::CrossEntropy>(Exec(), mpi_, batch(), Pass::forward, {}, how).plan.empty());
}

}  // namespace
