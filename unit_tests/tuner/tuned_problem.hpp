// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_TEST_TUNER_TUNED_PROBLEM_HPP
#define VOCABLOSS_TEST_TUNER_TUNED_PROBLEM_HPP

/// \file
/// Buffers of a batch whose every bit is known, before and after a tuner has worked on them.

#include <gtest/gtest.h>
#include <vocabloss/vocabloss.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace test {

using Exec = Kokkos::DefaultExecutionSpace;

template <class Logit>
struct TunedProblem {
  using Matrix = Kokkos::View<Logit**, Kokkos::LayoutRight, Exec>;
  using Vector = Kokkos::View<vocabloss::Accumulate<Logit>*, Exec>;
  using Real = vocabloss::Accumulate<Logit>;

  TunedProblem(int rows, int columns)
      : logits("logits", rows, columns),
        teacher("teacher", rows, columns),
        gradient("gradient", rows, columns),
        losses("losses", rows),
        labels("labels", rows) {
    fill(logits, 1);
    fill(teacher, 2);
    fill(gradient, 3);
    Kokkos::deep_copy(losses, Real(-7));
    Kokkos::deep_copy(labels, columns - 1);
  }

  /// Values that no rounding changes by accident: they depend on where they are.
  static void fill(const Matrix& matrix, int kind) {
    const auto host = Kokkos::create_mirror_view(matrix);
    for (std::size_t k = 0; k < host.size(); ++k) {
      host.data()[k] = vocabloss::narrow<Logit>(static_cast<Real>(std::sin(double(k) * 0.7 + kind) * 3));
    }
    Kokkos::deep_copy(matrix, host);
  }

  vocabloss::Batch<Logit, Exec> batch() const {
    vocabloss::Batch<Logit, Exec> result;
    result.logits(logits).teacher(teacher).labels(labels).losses(losses);
    return result;
  }

  /// All bytes of all buffers.
  std::string bytes() const {
    std::string all;
    const auto add = [&](const auto& view) {
      const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
      all.append(reinterpret_cast<const char*>(host.data()), host.span() * sizeof(*host.data()));
    };
    add(logits);
    add(teacher);
    add(gradient);
    add(losses);
    add(labels);
    return all;
  }

  Matrix logits, teacher, gradient;
  Vector losses;
  Kokkos::View<int*, Exec> labels;
};

}  // namespace test

#endif
