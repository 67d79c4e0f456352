// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_STATE_WORDS_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_STATE_WORDS_HPP

/// \file
/// \brief A loss's state as the words that cross between ranks, and which of them are maxima.
///
/// Nobody declares the maxima: they are the words that the state of no column holds as loss::empty_maximum, the
/// student's before the teacher's; all other words are sums, 0 in that state. A loss of which that is not true keeps
/// the exchange `allgather`, which moves whole states.

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>

#include <Kokkos_Macros.hpp>

#include <cstdint>
#include <limits>

namespace vocabloss::Impl {

template <class Loss, int Round>
struct StateWords {
  using Real = typename Loss::Real;
  using State = typename Loss::template State<Round>;
  static constexpr int count = sizeof(State) / sizeof(Real);
  static_assert(count * sizeof(Real) == sizeof(State), "a state is made of Reals only: see loss/concept.hpp");

  KOKKOS_INLINE_FUNCTION static State load(const Real* from) {
    State state;
    Real* words = reinterpret_cast<Real*>(&state);
    for (int k = 0; k < count; ++k) words[k] = from[k];
    return state;
  }
  KOKKOS_INLINE_FUNCTION static void store(Real* to, const State& state) {
    const Real* words = reinterpret_cast<const Real*>(&state);
    for (int k = 0; k < count; ++k) to[k] = words[k];
  }

  KOKKOS_INLINE_FUNCTION static bool is_maximum(int k) {
    const State nothing = Loss::template identity<Round, 1>();
    return reinterpret_cast<const Real*>(&nothing)[k] == loss::empty_maximum<Real>();
  }
  KOKKOS_INLINE_FUNCTION static int maxima() {
    int found = 0;
    for (int k = 0; k < count; ++k) found += is_maximum(k) ? 1 : 0;
    return found;
  }
  KOKKOS_INLINE_FUNCTION static int sums() { return count - maxima(); }

  /// Whether maxima and sums are all there is to a state.
  KOKKOS_INLINE_FUNCTION static bool is_maxima_and_sums() {
    const State nothing = Loss::template identity<Round, 1>();
    for (int k = 0; k < count; ++k) {
      if (!is_maximum(k) && reinterpret_cast<const Real*>(&nothing)[k] != Real(0)) return false;
    }
    return maxima() <= Loss::streams;
  }

  /// A NaN counts as plus infinity: what the largest of NaN and a number is depends on who compares. Such a row is
  /// poisoned by its sums.
  KOKKOS_INLINE_FUNCTION static void store_maxima(Real* to, const State& state) {
    const Real* words = reinterpret_cast<const Real*>(&state);
    int next = 0;
    for (int k = 0; k < count; ++k) {
      if (is_maximum(k)) to[next++] = words[k] == words[k] ? words[k] : static_cast<Real>(__builtin_inff());
    }
  }
  KOKKOS_INLINE_FUNCTION static void store_sums(Real* to, const State& state) {
    const Real* words = reinterpret_cast<const Real*>(&state);
    int next = 0;
    for (int k = 0; k < count; ++k) {
      if (!is_maximum(k)) to[next++] = words[k];
    }
  }
  KOKKOS_INLINE_FUNCTION static State load_parts(const Real* maxima, const Real* sums) {
    State state;
    Real* words = reinterpret_cast<Real*>(&state);
    for (int k = 0; k < count; ++k) words[k] = is_maximum(k) ? *maxima++ : *sums++;
    return state;
  }
  /// Lifts a state to the maxima of all ranks.
  KOKKOS_INLINE_FUNCTION static void raise(const Loss& loss, State& state, const Real* maxima_of_all) {
    const int found = maxima();
    if (found == 0) return;
    loss.template raise<Round>(state, maxima_of_all[0], found > 1 ? maxima_of_all[1] : Real(0));
  }
};

/// The words of the longest round.
template <class Loss>
constexpr int most_state_words() {
  if constexpr (Loss::rounds == 1) {
    return StateWords<Loss, 0>::count;
  } else {
    return StateWords<Loss, 0>::count > StateWords<Loss, 1>::count ? StateWords<Loss, 0>::count
                                                                   : StateWords<Loss, 1>::count;
  }
}

/// The states of a block of rows from all ranks, as an exchange left them.
template <class Real>
struct MergedStates {
  const Real* gathered = nullptr;  ///< [ranks][rows][words], or null: maxima and sums were reduced
  const Real* maxima = nullptr;    ///< [rows][maxima], of all ranks
  const Real* sums = nullptr;      ///< [rows][sums], of all ranks
  int ranks = 0;
  std::int64_t rows = 0;

  /// Merged in the order of the ranks: the same operations, and so the same bits, on every rank.
  template <int Round, class Loss>
  KOKKOS_INLINE_FUNCTION typename Loss::template State<Round> of_row(const Loss& loss, std::int64_t row) const {
    using Words = StateWords<Loss, Round>;
    if (!gathered) return Words::load_parts(maxima + row * Words::maxima(), sums + row * Words::sums());
    auto state = Words::load(gathered + row * Words::count);
    for (int rank = 1; rank < ranks; ++rank) {
      state = loss.template merge<Round>(state, Words::load(gathered + (rank * rows + row) * Words::count));
    }
    return state;
  }
};

}  // namespace vocabloss::Impl

#endif
