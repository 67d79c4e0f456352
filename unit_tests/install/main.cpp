// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// A user's program: finds the installed package, computes a loss and its gradient, checks one number.
#include <vocabloss/vocabloss.hpp>
#if defined(CONSUMER_TUNES)
#include <vocabloss/tuning/tune.hpp>
#endif

#include <cmath>
#include <cstdio>

int main(int argc, char** argv) {
  Kokkos::ScopeGuard kokkos(argc, argv);
  using Exec = Kokkos::DefaultExecutionSpace;
  const int rows = 4;
  const int vocab = 1000;
  Kokkos::View<float**, Kokkos::LayoutRight, Exec> logits("logits", rows, vocab);
  Kokkos::View<float**, Kokkos::LayoutRight, Exec> gradient("gradient", rows, vocab);
  Kokkos::View<int*, Exec> labels("labels", rows);
  Kokkos::View<float*, Exec> losses("losses", rows);

  vocabloss::Batch<float, Exec> batch;
  batch.logits(logits).labels(labels).losses(losses).gradient(gradient);
  vocabloss::forward_backward<vocabloss::loss::CrossEntropy>(Exec(), batch);

#if defined(CONSUMER_TUNES)
  const auto pass = vocabloss::Pass::forward_backward;
  const auto tuning = vocabloss::tune<vocabloss::loss::CrossEntropy>(Exec(), batch, pass, {}, {.repeats = 1});
  std::printf("tuned: %s\n", tuning.plan.c_str());
#endif

  // Equal logits: every class has probability 1 / vocab.
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), losses);
  std::printf("cross-entropy %.6f, expected ln %d = %.6f\n", host(0), vocab, std::log(vocab));
  return std::fabs(host(0) - std::log(vocab)) < 1e-5 ? 0 : 1;
}
