// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_PLAIN_ROW_HPP
#define VOCABLOSS_IMPL_PORTABLE_PLAIN_ROW_HPP

/// \file
/// \brief A thread's share of a row in fewer instructions: plain sums and the plain gradient of a loss that has them.
///
/// Columns at a maximum are summed like all others, several packs a step (concept.hpp says what a loss offers for it).
/// Whether the sums serve is known of the whole team's: see team_state.hpp. In the gradient, the packs that need more
/// (the label's, some at a maximum, those of infinite terms) get the loss's exact one.

#include <vocabloss/impl/portable/device_streams.hpp>
#include <vocabloss/impl/portable/state_reducer.hpp>
#include <vocabloss/loss/concept.hpp>

namespace vocabloss::Impl {

/// Not for doubles: PlainSums are bounded as floats are.
template <class Loss, int Round>
inline constexpr bool sums_plainly = loss::SumsPlainly<Loss, Round> && sizeof(typename Loss::Real) == 4;
template <class Loss>
inline constexpr bool has_plain_gradient = loss::HasPlainGradient<Loss> && sizeof(typename Loss::Real) == 4;

/// `packs`: of a step of the sums.
template <class Loss, class Logit, int packs>
class PlainRow {
 public:
  using Real = typename Loss::Real;
  using Statistics = typename Loss::Statistics;
  using Streams = DeviceStreams<Loss, Logit>;
  static constexpr int lanes = Streams::lanes;
  /// The gradient needs no maximum over the packs held: two are enough to keep loads in flight.
  static constexpr int packs_of_gradient = packs < 2 ? packs : 2;

  KOKKOS_INLINE_FUNCTION PlainRow(const Loss& loss, const Streams& streams, unsigned rank, unsigned team)
      : loss_(loss), streams_(streams), rank_(rank), team_(team) {}

  template <int Round>
  KOKKOS_INLINE_FUNCTION PlainState<Real> sum(const Statistics& statistics, int label) const {
    PlainState<Real> state;
    RunningSums running{state.sums};
    if constexpr (Loss::needs_label) {
      if (rank_ == 0 && label >= 0) state.label_logit = streams_.logit(label);
    }
    if (streams_.teacher_is_parallel()) {
      sum_body<Round, packs, Logit>(running, statistics, true);
    } else if (streams_.teacher_is_float()) {
      sum_body<Round, 1, float>(running, statistics, streams_.template teacher_is_aligned<float>());
    } else {
      sum_body<Round, 1, Logit>(running, statistics, false);
    }
    for (unsigned e = rank_; e < streams_.edges(); e += team_) {
      const auto edge = streams_.edge(e);
      sum_columns<Round>(running, statistics, edge.x.lane[0], Loss::streams == 2 ? edge.t.lane[0] : Real(0), edge);
    }
    return state;
  }

  /// The gradient of the body, where teacher and gradient are parallel to the logits and the row has a plain one.
  template <class Slope>
  KOKKOS_INLINE_FUNCTION void write_body(const Slope& slope, int label) const {
    bool cares_for_maxima = false;
    if constexpr (requires { loss_.cares_for_maxima(slope); }) cares_for_maxima = loss_.cares_for_maxima(slope);
    unsigned from = rank_;
    for (; from + (packs_of_gradient - 1) * team_ < streams_.packs(); from += packs_of_gradient * team_) {
      write_step<packs_of_gradient>(slope, label, cares_for_maxima, from);
    }
    if constexpr (packs_of_gradient > 1) {
      for (; from < streams_.packs(); from += team_) write_step<1>(slope, label, cares_for_maxima, from);
    }
  }

 private:
  template <int count, class Teacher>
  using Held = typename Streams::template Held<count, Teacher>;

  /// A thread may have so many columns that one float sum of them all would lose digits. So those of a step are summed
  /// on their own, and what adding them rounds off is added with the next (Kahan, "Further remarks on reducing
  /// truncation errors", 1965).
  struct RunningSums {
    loss::PlainSums<Real>& sums;
    loss::PlainSums<Real> lost{};  ///< relative to the same maxima

    KOKKOS_INLINE_FUNCTION void add(const loss::PlainSums<Real>& part) {
      if (sums.x.maximum != lost.x.maximum || sums.t.maximum != lost.t.maximum) lost = sums.emptied();
      add(sums.x.sum, lost.x.sum, part.x.sum);
      add(sums.t.sum, lost.t.sum, part.t.sum);
      add(sums.weighted, lost.weighted, part.weighted);
    }
    KOKKOS_INLINE_FUNCTION static void add(Real& sum, Real& lost, Real part) {
      const Real term = part - lost, next = sum + term;
      lost = (next - sum) - term;
      sum = next;
    }
  };

  template <int Round, int N>
  KOKKOS_INLINE_FUNCTION void sum_columns(RunningSums& running, const Statistics& statistics, Real max_x, Real max_t,
                                          const loss::Columns<Real, N>& columns) const {
    if constexpr (Loss::template round_sums<Round>.maxima) {
      loss_.template raise_plainly<Round>(running.sums, max_x, max_t);
    }
    loss::PlainSums<Real> part = running.sums.emptied();
    loss_.template sum_plainly<Round>(part, statistics, columns);
    running.add(part);
  }

  /// Whole steps, then what is left of the body pack by pack: no branch asks whether a pack exists.
  template <int Round, int count, class Teacher>
  KOKKOS_INLINE_FUNCTION void sum_body(RunningSums& running, const Statistics& statistics, bool aligned) const {
    unsigned from = rank_;
    for (; from + (count - 1) * team_ < streams_.packs(); from += count * team_) {
      sum_step<Round, count, Teacher>(running, statistics, from, aligned);
    }
    if constexpr (count > 1) {
      for (; from < streams_.packs(); from += team_) sum_step<Round, 1, Teacher>(running, statistics, from, aligned);
    }
  }

  template <int Round, int count, class Teacher>
  KOKKOS_INLINE_FUNCTION void sum_step(RunningSums& running, const Statistics& statistics, unsigned from,
                                       bool aligned) const {
    Held<count, Teacher> held;
    for (int p = 0; p < count; ++p) streams_.load(held, p, streams_.column_of_pack(from + p * team_), aligned);
    sum_columns<Round>(running, statistics, held.largest_x(), held.largest_t(), held.all_columns());
  }

  template <int count, class Slope>
  KOKKOS_INLINE_FUNCTION void write_step(const Slope& slope, int label, bool cares_for_maxima, unsigned from) const {
    const auto column = [&](int p) { return streams_.column_of_pack(streams_.packs() - 1 - (from + p * team_)); };
    Held<count, Logit> held;
    for (int p = 0; p < count; ++p) streams_.load_last(held, p, column(p));
    unsigned exact = 0;  // packs that need the loss's `gradient`, a bit each
    for (int p = 0; p < count; ++p) {
      StoredPack<Logit, lanes> stored;
      stored.set(loss_.plain_gradient(slope, held.columns(p, column(p))));
      bool is_exact = false;
      if constexpr (Loss::needs_label) is_exact = loss::lane_of_label(label, column(p)) < unsigned(lanes);
      if constexpr (requires { loss_.is_at_maximum(slope, Real(0), Real(0)); }) {
        if (cares_for_maxima) {
          const Held<1, Logit> one{{held.x[p]}, {held.t[Loss::streams == 2 ? p : 0]}};
          is_exact = is_exact || loss_.is_at_maximum(slope, one.largest_x(), one.largest_t());
        }
      }
      if constexpr (Loss::plain_gradient_may_be_nan) is_exact = is_exact || holds_nan(stored);
      if (is_exact) {
        exact |= 1u << p;
      } else {
        streams_.store(column(p), stored);
      }
    }
    for (int p = 0; exact != 0; exact >>= 1, ++p) {
      if (!(exact & 1)) continue;
      Held<1, Logit> again;  // not overwritten yet where the gradient takes the place of the logits
      streams_.load(again, 0, column(p), true);
      StoredPack<Logit, lanes> stored;
      stored.set(loss_.gradient(slope, again.columns(0, column(p)), label));
      streams_.store(column(p), stored);
    }
  }

  const Loss& loss_;
  const Streams& streams_;
  unsigned rank_, team_;
};

}  // namespace vocabloss::Impl

#endif
