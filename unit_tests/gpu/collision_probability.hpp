// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_COLLISION_PROBABILITY_HPP
#define VOCABLOSS_COLLISION_PROBABILITY_HPP

/// \file
/// \brief A loss that the library does not ship, written as a user would: from loss/concept.hpp and loss/pack.hpp
/// alone.
///
/// sum p^2 with p = softmax(sharpness x); its derivative is 2 sharpness p_j (p_j - sum p^2).

#include <vocabloss/loss/concept.hpp>

#include <Kokkos_MathematicalFunctions.hpp>

namespace user {

struct Sharpness {
  double sharpness = 1;
};

template <class RealType>
struct CollisionProbability {
  using Real = RealType;
  using Options = Sharpness;
  static constexpr int streams = 1;
  static constexpr bool teacher_is_logits = false;
  static constexpr bool needs_label = false;
  static constexpr int rounds = 1;
  static constexpr int outputs = 1;

  Real sharpness;
  explicit CollisionProbability(const Options& options) : sharpness(Real(options.sharpness)) {}

  /// Sums of e^(s (x - maximum)) and of its square. The maximum of nothing is far below, but finite.
  template <int Round, int Lanes = 1>
  struct State {
    Real maximum;
    Real sum[Lanes], squares[Lanes];
  };
  struct Statistics {
    Real maximum, sum, squares;
  };
  struct GradientRow {
    Real maximum, inverse_sum, value, factor;
  };

  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round, Lanes> identity() {
    State<Round, Lanes> state;
    state.maximum = Real(-1e30);
    for (int l = 0; l < Lanes; ++l) state.sum[l] = state.squares[l] = Real(0);
    return state;
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION void raise(State<Round, Lanes>& state, Real max_x, Real) const {
    if (!(max_x > state.maximum)) return;
    const Real factor = Kokkos::exp(sharpness * (state.maximum - max_x));
    state.maximum = max_x;
    for (int l = 0; l < Lanes; ++l) state.sum[l] *= factor, state.squares[l] *= factor * factor;
  }
  template <int Round, int Lanes, int N>
  KOKKOS_INLINE_FUNCTION void accumulate(State<Round, Lanes>& state, const Statistics&,
                                         const vocabloss::loss::Columns<Real, N>& columns, int) const {
    for (int j = 0; j < N; ++j) {
      const Real e = Kokkos::exp(sharpness * (columns.x.lane[j] - state.maximum));
      state.sum[j % Lanes] += e, state.squares[j % Lanes] += e * e;
    }
  }
  template <int Round, int Lanes>
  KOKKOS_INLINE_FUNCTION static State<Round> collapse(const State<Round, Lanes>& state) {
    State<Round> one = identity<Round, 1>();
    one.maximum = state.maximum;
    for (int l = 0; l < Lanes; ++l) one.sum[0] += state.sum[l], one.squares[0] += state.squares[l];
    return one;
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION State<Round> merge(State<Round> a, State<Round> b) const {
    raise(a, b.maximum, Real(0)), raise(b, a.maximum, Real(0));
    a.sum[0] += b.sum[0], a.squares[0] += b.squares[0];
    return a;
  }
  template <int Round>
  KOKKOS_INLINE_FUNCTION void finish(Statistics& statistics, const State<Round>& state) const {
    statistics = {state.maximum, state.sum[0], state.squares[0]};
  }
  KOKKOS_INLINE_FUNCTION Real value(const Statistics& statistics, int) const {
    return statistics.squares / (statistics.sum * statistics.sum);
  }
  KOKKOS_INLINE_FUNCTION GradientRow gradient_row(const Statistics& statistics,
                                                  const vocabloss::loss::Row<Real>& row) const {
    return {statistics.maximum, Real(1) / statistics.sum, value(statistics, 0), Real(2) * sharpness * row.upstream[0]};
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION vocabloss::loss::Pack<Real, N> gradient(const GradientRow& row,
                                                                 const vocabloss::loss::Columns<Real, N>& columns,
                                                                 int) const {
    vocabloss::loss::Pack<Real, N> result;
    for (int j = 0; j < N; ++j) {
      const Real p = Kokkos::exp(sharpness * (columns.x.lane[j] - row.maximum)) * row.inverse_sum;
      result.lane[j] = p * (p - row.value) * row.factor;
    }
    return result;
  }
};
static_assert(vocabloss::loss::LossAlgebra<CollisionProbability<float>>);

}  // namespace user

#endif
