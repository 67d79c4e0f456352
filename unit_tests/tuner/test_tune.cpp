// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The tuner on one rank: buffers stay as they are, candidates are listed, a record spares the timing.

#include <gtest/gtest.h>
#include <vocabloss/tuning/tune.hpp>

#include <algorithm>
#include <limits>
#include <string>

#include "tuned_problem.hpp"

namespace {

using namespace vocabloss;
using test::Exec;
using test::TunedProblem;

constexpr TuneOptions quick{.repeats = 3};

const TunedCandidate* find(const Tuning& tuning, Path path) {
  for (const TunedCandidate& candidate : tuning.candidates) {
    if (candidate.request.path == path) return &candidate;
  }
  return nullptr;
}

template <template <class> class Loss, class Logit, class Set>
void expect_untouched(Pass pass, Set&& set) {
  const TunedProblem<Logit> problem(5, 3000);
  Batch<Logit, Exec> batch = problem.batch();
  set(batch, problem);
  const std::string before = problem.bytes();
  const Tuning tuning = tune<Loss>(Exec(), batch, pass, {}, quick);
  EXPECT_TRUE(before == problem.bytes()) << name_of(pass);
  EXPECT_FALSE(tuning.from_record);
  EXPECT_GT(tuning.time.median_ms, 0);
  // The choice runs, and gives what any plan gives.
  const Plan<Loss, Logit, Exec> plan(Exec(), batch, {}, tuning.request);
  EXPECT_EQ(plan.launch().describe(), tuning.plan);
}

TEST(Tune, BuffersStayAsTheyAreOutOfPlace) {
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::forward_backward}) {
    expect_untouched<loss::ReverseKl, bfloat16>(pass, [](auto& batch, auto& p) { batch.gradient(p.gradient); });
    expect_untouched<loss::CrossEntropy, double>(pass, [](auto& batch, auto& p) { batch.gradient(p.gradient); });
  }
}

TEST(Tune, BuffersStayAsTheyAreInPlace) {
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::forward_backward}) {
    expect_untouched<loss::ReverseKl, bfloat16>(pass, [](auto& batch, auto& p) { batch.gradient(p.logits); });
    expect_untouched<loss::Jsd, float>(pass, [](auto& batch, auto& p) { batch.gradient(p.logits); });
  }
}

TEST(Tune, BuffersStayAsTheyAreAccumulating) {
  for (const Pass pass : {Pass::backward, Pass::forward_backward}) {
    expect_untouched<loss::ReverseKl, float>(pass, [](auto& batch, auto& p) { batch.accumulate_gradient(p.gradient); });
  }
}

TEST(Tune, StatisticsAndSummaryStayAsTheyAre) {
  using Plan = vocabloss::Plan<loss::CrossEntropy, float, Exec>;
  const TunedProblem<float> problem(4, 200);
  Kokkos::View<float**, Kokkos::LayoutRight, Exec> statistics("statistics", 4, Plan::statistics_per_row);
  Kokkos::View<Summary<float>, Exec> summary("summary");
  Kokkos::deep_copy(statistics, -3.0f);
  auto batch = problem.batch();
  batch.gradient(problem.gradient).statistics(statistics).summary(summary);
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::forward_backward}) {
    tune<loss::CrossEntropy>(Exec(), batch, pass, {}, quick);
  }
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), statistics);
  for (std::size_t k = 0; k < host.size(); ++k) EXPECT_EQ(host.data()[k], -3.0f);
  const auto sums = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), summary);
  EXPECT_EQ(sums().sum[0], 0);
  EXPECT_EQ(sums().valid_rows, 0);
}

/// Private copies are at the caller's place within 256 bytes, with the caller's strides, and are put back.
TEST(Tune, PrivateCopiesLookLikeTheCallersBuffers) {
  const Kokkos::View<float**, Kokkos::LayoutRight, Exec> wide("wide", 6, 101);
  Kokkos::deep_copy(wide, 2.0f);
  const auto logits = Kokkos::subview(wide, Kokkos::ALL, std::pair(3, 93));
  Batch<float, Exec> batch;
  batch.logits(logits).gradient(logits);
  const Impl::PrivateBatch<float, Exec> copy(Exec(), batch, Pass::forward_backward);
  const auto mine = batch.row_call();
  const auto other = copy.batch().row_call();
  EXPECT_NE(mine.logits.data, other.logits.data);
  EXPECT_EQ(other.logits.data, other.gradient.data);
  EXPECT_EQ(mine.logits.stride, other.logits.stride);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mine.logits.data) % 256,
            reinterpret_cast<std::uintptr_t>(other.logits.data) % 256);
  EXPECT_TRUE(copy.batch().problem().in_place);
  EXPECT_FALSE((Impl::PrivateBatch<float, Exec>::is_aligned(batch)));
}

TEST(Tune, InPlaceCandidatesReadTheLogitsAnew) {
  const TunedProblem<float> problem(3, 500);
  auto batch = problem.batch();
  batch.gradient(problem.logits);
  const Impl::PrivateBatch<float, Exec> copy(Exec(), batch, Pass::forward_backward);
  const Plan<loss::ReverseKl, float, Exec> plan(Exec(), copy.batch());
  const auto losses_of = [&] {
    copy.restore(Exec());
    plan.forward_backward(Exec(), copy.batch());
    Exec().fence();
    const Kokkos::View<const float*, Exec, Kokkos::MemoryUnmanaged> losses(copy.batch().row_call().losses[0], 3);
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), losses);
    return std::vector<float>(host.data(), host.data() + 3);
  };
  const std::vector<float> first = losses_of();
  EXPECT_EQ(losses_of(), first);
  EXPECT_GT(first[0], 0);
}

TEST(Tune, EveryCandidateHasATimeOrAReason) {
  const TunedProblem<float> problem(8, 20000);
  auto batch = problem.batch();
  batch.gradient(problem.gradient);
  const Tuning tuning = tune<loss::ReverseKl>(Exec(), batch, Pass::forward_backward, {}, quick);
  EXPECT_GE(tuning.candidates.size(), 7u);
  double fastest = std::numeric_limits<double>::infinity();
  for (const TunedCandidate& candidate : tuning.candidates) {
    EXPECT_TRUE(candidate.time || !candidate.reason.empty()) << candidate.plan;
    EXPECT_FALSE(candidate.plan.empty());
    EXPECT_NE(candidate.request.path, Path::reference);
    if (!candidate.reason.empty()) continue;
    EXPECT_EQ(candidate.calls, 3);
    EXPECT_LE(candidate.time->min_ms, candidate.time->median_ms);
    EXPECT_LE(candidate.time->median_ms, candidate.time->max_ms);
    fastest = std::min(fastest, candidate.time->median_ms);
  }
  EXPECT_EQ(tuning.time.median_ms, fastest);
}

#if !defined(KOKKOS_ENABLE_CUDA)
TEST(Tune, OnAHostTeamIsChosenAndTheRestSaysWhyNot) {
  const TunedProblem<float> problem(8, 20000);
  auto batch = problem.batch();
  batch.gradient(problem.gradient);
  const Tuning tuning = tune<loss::ReverseKl>(Exec(), batch, Pass::forward_backward, {}, quick);
  for (const Path path : {Path::cluster, Path::split}) {
    const TunedCandidate* candidate = find(tuning, path);
    ASSERT_NE(candidate, nullptr);
    EXPECT_FALSE(candidate->time);
    EXPECT_NE(candidate->reason.find("VocabLoss_ENABLE_CUDA"), std::string::npos) << candidate->reason;
    EXPECT_EQ(std::count_if(tuning.candidates.begin(), tuning.candidates.end(),
                            [&](const TunedCandidate& c) { return c.request.path == path; }),
              1)
        << "shapes of a path that is refused anyway";
  }
  // 2048 is the plan's own choice on a host, so that one of the two is enough.
  const auto same = std::count_if(tuning.candidates.begin(), tuning.candidates.end(), [](const TunedCandidate& c) {
    return c.reason.find("the same launch") != std::string::npos;
  });
  EXPECT_GE(same, 1);
}
#endif

TEST(Tune, ASecondRunAsksTheRecord) {
  const TunedProblem<float> problem(4, 3000);
  auto batch = problem.batch();
  batch.gradient(problem.gradient);
  TuningRecord record;
  TuneOptions how = quick;
  how.record = &record;
  const Tuning first = tune<loss::ReverseKl>(Exec(), batch, Pass::forward_backward, {}, how);
  EXPECT_FALSE(first.from_record);
  EXPECT_EQ(record.size(), 1u);
  how.base.memory_limit = 77;
  const Tuning second = tune<loss::ReverseKl>(Exec(), batch, Pass::forward_backward, {}, how);
  EXPECT_TRUE(second.from_record);
  EXPECT_TRUE(second.candidates.empty());
  EXPECT_EQ(second.request.path, first.request.path);
  EXPECT_EQ(second.request.block_cap, first.request.block_cap);
  EXPECT_EQ(second.request.memory_limit, 77u);  // not of the record, but of this call
  EXPECT_EQ(second.plan, first.plan);
  EXPECT_EQ(second.time, first.time);
  // Another pass, loss, mode or size is another question.
  EXPECT_FALSE(tune<loss::ReverseKl>(Exec(), batch, Pass::forward, {}, how).from_record);
  EXPECT_FALSE(tune<loss::ForwardKl>(Exec(), batch, Pass::forward_backward, {}, how).from_record);
  EXPECT_FALSE(tune<loss::Jsd>(Exec(), batch, Pass::forward_backward, {}, how).from_record);
  // A Jsd at beta 0 is forward KL, and its own entry serves it.
  EXPECT_TRUE(tune<loss::Jsd>(Exec(), batch, Pass::forward_backward, {.jsd_beta = 0}, how).from_record);
  batch.accumulate_gradient(problem.gradient);
  EXPECT_FALSE(tune<loss::ReverseKl>(Exec(), batch, Pass::forward_backward, {}, how).from_record);
  batch.gradient(problem.logits);
  EXPECT_FALSE(tune<loss::ReverseKl>(Exec(), batch, Pass::forward_backward, {}, how).from_record);
  EXPECT_EQ(record.size(), 6u);
}

TEST(Tune, BadArgumentsAreRefused) {
  const TunedProblem<float> problem(2, 30);
  const auto batch = problem.batch();  // without a gradient
  EXPECT_THROW(tune<loss::ReverseKl>(Exec(), batch, Pass::forward_backward), InvalidArgument);
  EXPECT_THROW(tune<loss::ReverseKl>(Exec(), batch, Pass::forward, {.temperature = -1}), InvalidArgument);
  EXPECT_THROW(tune<loss::ReverseKl>(Exec(), batch, Pass::forward, {}, {.repeats = 0}), InvalidArgument);
  EXPECT_THROW(tune<loss::ReverseKl>(Exec(), batch, Pass::forward, {}, {.too_slow = 0.5}), InvalidArgument);
}

TEST(Tune, NoRowsAreNoProblem) {
  const TunedProblem<float> problem(0, 30);
  auto batch = problem.batch();
  batch.gradient(problem.gradient);
  EXPECT_FALSE(tune<loss::ReverseKl>(Exec(), batch, Pass::forward_backward, {}, quick).plan.empty());
}

}  // namespace
