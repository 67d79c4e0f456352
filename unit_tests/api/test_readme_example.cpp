// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The example of the README, compiled and run. What stands between the markers is quoted there word for word.

#include <gtest/gtest.h>

#include <cmath>

// [readme]
#include <vocabloss/vocabloss.hpp>

using Logits = Kokkos::View<vocabloss::bfloat16**, Kokkos::LayoutRight>;

// Distillation step: loss and gradient of the reverse KL divergence, one pass over both streams.
void distill(Logits student, Logits teacher, Logits gradient, Kokkos::View<float*> losses) {
  vocabloss::Batch<vocabloss::bfloat16> batch;
  batch.logits(student).teacher(teacher).losses(losses).gradient(gradient);
  vocabloss::forward_backward<vocabloss::loss::ReverseKl>(Kokkos::DefaultExecutionSpace(), batch, {.temperature = 2.0});
}

// Training step: cross-entropy of labels, averaged over the rows that count on all ranks, gradient over the logits.
// Make the plan once, outside the loop: its calls allocate nothing and only enqueue.
void train(Logits logits, Kokkos::View<int*> labels, Kokkos::View<bool*> mask, double valid_rows_everywhere,
           Kokkos::View<vocabloss::Summary<float>> summary) {
  Kokkos::DefaultExecutionSpace exec;
  vocabloss::Batch<vocabloss::bfloat16> batch;
  batch.logits(logits).labels(labels).mask(mask).divisor(valid_rows_everywhere).gradient(logits).summary(summary);
  vocabloss::Plan<vocabloss::loss::CrossEntropy, vocabloss::bfloat16> plan(exec, batch);
  plan.forward_backward(exec, batch);
}
// [readme]

namespace {

void fill(const Logits& view, float step) {
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < host.extent(0); ++i) {
    for (std::size_t j = 0; j < host.extent(1); ++j) {
      host(i, j) = vocabloss::narrow<vocabloss::bfloat16>(step * static_cast<float>(j));
    }
  }
  Kokkos::deep_copy(view, host);
}

TEST(ReadmeExample, Distills) {
  Logits student("student", 3, 4), teacher("teacher", 3, 4), gradient("gradient", 3, 4);
  Kokkos::View<float*> losses("losses", 3);
  fill(student, 0.0f);
  fill(teacher, 2.0f);
  distill(student, teacher, gradient, losses);
  // At temperature 2 the teacher's logits are 0, 1, 2, 3 and the student is flat.
  const double lse = std::log(1 + std::exp(1) + std::exp(2) + std::exp(3));
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), losses);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(host(i), -std::log(4) + lse - 1.5, 1e-5);
  const auto slope = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), gradient);
  for (int j = 0; j < 4; ++j) EXPECT_NEAR(vocabloss::widen(slope(0, j)), 0.5 * 0.25 * (1.5 - j), 1e-3);
}

TEST(ReadmeExample, Trains) {
  Logits logits("logits", 2, 4);
  fill(logits, 0.0f);
  Kokkos::View<int*> labels("labels", 2);
  Kokkos::View<bool*> mask("mask", 2);
  const auto counts = Kokkos::create_mirror_view(mask);
  counts(0) = true;
  counts(1) = false;
  Kokkos::deep_copy(mask, counts);
  Kokkos::View<vocabloss::Summary<float>> summary("summary");
  train(logits, labels, mask, 2, summary);
  const auto sums = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), summary)();
  EXPECT_NEAR(sums.sum[0], std::log(4) / 2, 1e-6);
  EXPECT_EQ(sums.valid_rows, 1);
  const auto slope = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), logits);
  EXPECT_NEAR(vocabloss::widen(slope(0, 0)), -0.375, 1e-3);
  EXPECT_NEAR(vocabloss::widen(slope(0, 1)), 0.125, 1e-3);
  EXPECT_EQ(vocabloss::widen(slope(1, 0)), 0);
}

}  // namespace
