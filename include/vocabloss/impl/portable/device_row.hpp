// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_DEVICE_ROW_HPP
#define VOCABLOSS_IMPL_PORTABLE_DEVICE_ROW_HPP

/// \file
/// \brief One row by one thread of a team on a GPU: its share of the row's statistics, and of the gradient.
///
/// Threads take the body's packs (device_streams.hpp) in turn, several a step, which stay in registers as stored from
/// their loads to their exponentials. Here is what every loss has; what plain_row.hpp does in fewer instructions comes
/// here only with the rows that need it, one pack at a time.

#include <vocabloss/impl/portable/device_streams.hpp>
#include <vocabloss/impl/portable/plain_row.hpp>
#include <vocabloss/loss/online_softmax.hpp>

#include <cstdint>

namespace vocabloss::Impl {

template <class Loss, class Logit, int columns_per_thread>
class DeviceRow {
 public:
  using Real = typename Loss::Real;
  using Statistics = typename Loss::Statistics;
  using Streams = DeviceStreams<Loss, Logit>;
  static constexpr int lanes = Streams::lanes;
  static constexpr int packs = columns_per_thread / lanes;
  static_assert(packs * lanes == columns_per_thread, "a thread holds whole packs");

  KOKKOS_INLINE_FUNCTION DeviceRow(const Loss& loss, const RowCall<Real>& call, std::int64_t row, int rank, int team)
      : loss_(loss), call_(call), streams_(call, row), rank_(rank), team_(team) {}

  // ---- statistics ----

  template <int Round>
  KOKKOS_INLINE_FUNCTION typename Loss::template State<Round> find_state(const Statistics& statistics,
                                                                         int label) const {
    constexpr int count = sums_plainly<Loss, Round> ? 1 : packs;
    auto state = Loss::template identity<Round, 1>();
    if (streams_.teacher_is_float()) {
      // Twice the bits of the logits: one pack at a time, or the registers would not hold them.
      absorb_body<Round, 1, float>(state, statistics, label);
    } else {
      absorb_body<Round, count, Logit>(state, statistics, label);
    }
    for (unsigned e = rank_; e < streams_.edges(); e += team_) {
      loss::absorb<Round>(loss_, state, statistics, streams_.edge(e), label);
    }
    return state;
  }

  template <int Round>
  KOKKOS_INLINE_FUNCTION PlainState<Real> sum_plainly(const Statistics& statistics, int label) const {
    return plain().template sum<Round>(statistics, label);
  }

  // ---- gradient ----

  template <class Slope>
  KOKKOS_INLINE_FUNCTION void write_gradient(const Slope& slope, int label) const {
    for (unsigned e = rank_; e < streams_.edges(); e += team_) {
      const auto columns = streams_.edge(e);
      streams_.template store<1>(columns.first, loss_.gradient(slope, columns, label), false);
    }
    if constexpr (has_plain_gradient<Loss>) {
      if (streams_.teacher_is_parallel() && streams_.gradient_is_parallel() && loss_.has_plain_gradient(slope)) {
        return plain().write_body(slope, label);
      }
    }
    if (streams_.teacher_is_float()) {
      write_body<float>(slope, label);
    } else {
      write_body<Logit>(slope, label);
    }
  }

  KOKKOS_INLINE_FUNCTION void write_zeros() const {
    if (call_.gradient.accumulate) return;
    loss::Pack<Real, lanes> zeros;
    for (int j = 0; j < lanes; ++j) zeros.lane[j] = Real(0);
    const bool aligned = streams_.gradient_is_aligned();
    for (unsigned e = rank_; e < streams_.edges(); e += team_) {
      streams_.template store<1>(streams_.column_of_edge(e), loss::Pack<Real, 1>{{Real(0)}}, false);
    }
    for (unsigned p = rank_; p < streams_.packs(); p += team_) {
      streams_.template store<lanes>(streams_.column_of_pack(p), zeros, aligned);
    }
  }

 private:
  using Plain = PlainRow<Loss, Logit, packs>;
  template <int count, class Teacher>
  using Held = typename Streams::template Held<count, Teacher>;

  KOKKOS_INLINE_FUNCTION Plain plain() const { return Plain(loss_, streams_, rank_, team_); }

  /// Column of a thread's pack p of the step that starts at `from`, or -1 beyond the body.
  KOKKOS_INLINE_FUNCTION int column_in_step(unsigned from, int p) const {
    const unsigned pack = from + p * team_;
    return pack < streams_.packs() ? streams_.column_of_pack(pack) : -1;
  }

  /// A part of the row at a time: in one float sum of all that a thread may have, small terms would drown.
  template <int Round, int count, class Teacher, class State>
  KOKKOS_INLINE_FUNCTION void absorb_body(State& all, const Statistics& statistics, int label) const {
    constexpr unsigned packs_of_part = 32;
    const bool aligned = streams_.template teacher_is_aligned<Teacher>();
    State part = Loss::template identity<Round, 1>();
    unsigned part_end = rank_ + packs_of_part * team_;
    for (unsigned from = rank_; from < streams_.packs(); from += count * team_) {
      if (from >= part_end) {
        all = loss_.template merge<Round>(all, part);
        part = Loss::template identity<Round, 1>();
        part_end = from + packs_of_part * team_;
      }
      Held<count, Teacher> held;
      for (int p = 0; p < count; ++p) {
        const int first = column_in_step(from, p);
        if (first >= 0) streams_.load(held, p, first, aligned);
      }
      Real max_x = loss::empty_maximum<Real>();
      Real max_t = Loss::streams == 2 && Loss::teacher_is_logits ? max_x : Real(0);
      for (int p = 0; p < count; ++p) {
        const int first = column_in_step(from, p);
        if (first < 0) continue;
        const auto columns = held.columns(p, first);
        max_x = loss::larger(max_x, loss::largest(columns.x));
        if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) {
          max_t = loss::larger(max_t, loss::largest(columns.t));
        }
      }
      loss_.template raise<Round>(part, max_x, max_t);
      for (int p = 0; p < count; ++p) {
        const int first = column_in_step(from, p);
        if (first >= 0) loss_.template accumulate<Round>(part, statistics, held.columns(p, first), label);
      }
    }
    all = loss_.template merge<Round>(all, part);
  }

  /// From the end of the row, whose columns were read last.
  template <class Teacher, class Slope>
  KOKKOS_INLINE_FUNCTION void write_body(const Slope& slope, int label) const {
    const bool aligned = streams_.template teacher_is_aligned<Teacher>();
    const bool gradient_aligned = streams_.gradient_is_aligned();
    for (unsigned p = rank_; p < streams_.packs(); p += team_) {
      const int first = streams_.column_of_pack(streams_.packs() - 1 - p);
      Held<1, Teacher> held;
      streams_.load(held, 0, first, aligned);
      streams_.template store<lanes>(first, loss_.gradient(slope, held.columns(0, first), label), gradient_aligned);
    }
  }

  const Loss& loss_;
  const RowCall<Real>& call_;
  Streams streams_;
  unsigned rank_, team_;
};

}  // namespace vocabloss::Impl

#endif
