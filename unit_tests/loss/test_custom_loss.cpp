// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// A loss that the library does not ship: the collision probability sum p_j^2, from its own header-sized algebra,
// through a plan on the paths team and reference. It has options of its own and no other tie to the library than the
// concept.

#include <gtest/gtest.h>

#include <vocabloss/vocabloss.hpp>

#include <cmath>
#include <vector>

namespace user {

struct PowerOptions {
  double sharpness = 1;  ///< multiplies the logits
};

/// Found by the plan through argument-dependent lookup.
void check_options(const PowerOptions& options) {
  vocabloss::Impl::expects(options.sharpness > 0, [] { return std::string("sharpness must be positive"); });
}

/// sum p^2 = sum 4^a / (sum 2^a)^2 with a relative to the maximum; its derivative is 2 s p_j (p_j - sum p^2).
template <class RealType>
struct CollisionProbability {
  using Real = RealType;
  using Options = PowerOptions;
  static constexpr int streams = 1;
  static constexpr bool teacher_is_logits = false;
  static constexpr bool needs_label = false;
  static constexpr int rounds = 1;
  static constexpr int outputs = 1;

  Real scale, scale_log2;
  explicit CollisionProbability(const Options& options)
      : scale(Real(options.sharpness)), scale_log2(Real(options.sharpness * vocabloss::loss::log2_of_e)) {}

  template <int Round, int Lanes = 1>
  struct State {
    vocabloss::loss::SoftmaxSum<Real, Lanes> x;
    vocabloss::loss::LaneSum<Real, Lanes> squares;
  };
  struct Statistics {
    Real maximum, sum, squares;
  };
  struct GradientRow {
    Real maximum, inverse_sum, value, factor;
  };

  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round, Lanes> identity() {
    return {vocabloss::loss::SoftmaxSum<Real, Lanes>::identity(), vocabloss::loss::LaneSum<Real, Lanes>::zero()};
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION void raise(State<Round, Lanes>& state, Real max_x, Real) const {
    const auto move = state.x.move_to(max_x, scale_log2);
    state.squares.scale(move.factor * move.factor);
    state.x.apply(move, max_x);
  }
  template <int Round, int Lanes, int N>
  KOKKOS_INLINE_FUNCTION void accumulate(State<Round, Lanes>& state, const Statistics&,
                                         const vocabloss::loss::Columns<Real, N>& columns, int) const {
    for (int j = 0; j < N; ++j) {
      const Real a = state.x.relative(columns.x.lane[j], scale_log2);
      const Real e = vocabloss::loss::exp2_of(a);
      state.x.add(j % Lanes, a, e);
      state.squares.lane[j % Lanes] += e * e;
    }
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round> collapse(const State<Round, Lanes>& state) {
    return {state.x.collapse(), state.squares.total()};
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> merge(State<Round> a, State<Round> b) const {
    const Real maximum = vocabloss::loss::larger(a.x.maximum, b.x.maximum);
    raise(a, maximum, Real(0));
    raise(b, maximum, Real(0));
    a.x.add(b.x);
    a.squares.add(b.squares);
    return a;
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION void finish(Statistics& statistics, const State<Round>& state) const {
    statistics = {state.x.maximum, Real(1) + state.x.excess(), state.squares.value()};
  }
  KOKKOS_INLINE_FUNCTION Real value(const Statistics& statistics, int) const {
    return statistics.squares / (statistics.sum * statistics.sum);
  }
  KOKKOS_INLINE_FUNCTION GradientRow gradient_row(const Statistics& statistics,
                                                  const vocabloss::loss::Row<Real>& row) const {
    return {statistics.maximum, Real(1) / statistics.sum, value(statistics, 0), Real(2) * scale * row.upstream[0]};
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION vocabloss::loss::Pack<Real, N> gradient(const GradientRow& row,
                                                                 const vocabloss::loss::Columns<Real, N>& columns,
                                                                 int) const {
    vocabloss::loss::Pack<Real, N> result;
    for (int j = 0; j < N; ++j) {
      const Real p = vocabloss::loss::exp2_of((columns.x.lane[j] - row.maximum) * scale_log2) * row.inverse_sum;
      result.lane[j] = p * (p - row.value) * row.factor;
    }
    return result;
  }
};
static_assert(vocabloss::loss::LossAlgebra<CollisionProbability<float>>);

}  // namespace user

namespace {

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;
constexpr int rows = 3;
constexpr int columns = 75;

TEST(CustomLoss, RunsOnTeamAndReference) {
  const Kokkos::View<float**, Kokkos::LayoutRight, Memory> x("x", rows, columns), dx("dx", rows, columns);
  const Kokkos::View<float*, Memory> losses("losses", rows);
  const auto x_host = Kokkos::create_mirror_view(x);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) x_host(i, j) = static_cast<float>(std::sin(1.0 + i * columns + j) * 3);
  }
  x_host(2, 5) = std::nanf("");
  Kokkos::deep_copy(x, x_host);
  vocabloss::Batch<float> batch;
  batch.logits(x).losses(losses).gradient(dx);
  const user::PowerOptions options{.sharpness = 1.5};
  for (const auto path : {vocabloss::Path::team, vocabloss::Path::reference}) {
    const vocabloss::Plan<user::CollisionProbability, float> plan(Exec(), batch, options,
                                                                  {.path = path, .block_cap = 32});
    plan.forward_backward(Exec(), batch);
    Kokkos::fence();
    const auto loss = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), losses);
    const auto slope = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), dx);
    for (int i = 0; i < 2; ++i) {
      double sum = 0, squares = 0;
      for (int j = 0; j < columns; ++j) sum += std::exp(1.5 * x_host(i, j));
      for (int j = 0; j < columns; ++j) squares += std::pow(std::exp(1.5 * x_host(i, j)) / sum, 2);
      EXPECT_NEAR(loss(i), squares, 1e-6);
      for (int j = 0; j < columns; ++j) {
        const double p = std::exp(1.5 * x_host(i, j)) / sum;
        EXPECT_NEAR(slope(i, j), 2 * 1.5 * p * (p - squares), 1e-6) << i << ", " << j;
      }
    }
    EXPECT_TRUE(std::isnan(loss(2)));
    EXPECT_TRUE(std::isnan(slope(2, 0)));
  }
}

TEST(CustomLoss, ItsOptionsAreChecked) {
  const Kokkos::View<float**, Kokkos::LayoutRight, Memory> x("x", rows, columns);
  vocabloss::Batch<float> batch;
  batch.logits(x);
  using Plan = vocabloss::Plan<user::CollisionProbability, float>;
  EXPECT_THROW(Plan(Exec(), batch, {.sharpness = 0}), vocabloss::InvalidArgument);
  EXPECT_THROW(Plan(Exec(), batch, {}, {.path = vocabloss::Path::naive}), vocabloss::PathRefused);
}

}  // namespace
