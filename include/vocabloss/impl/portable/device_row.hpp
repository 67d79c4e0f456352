// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_DEVICE_ROW_HPP
#define VOCABLOSS_IMPL_PORTABLE_DEVICE_ROW_HPP

/// \file
/// \brief One row by one thread of a team on a GPU: which packs are its own, and what it does with them.
///
/// A row is cut by the address of its logits: a head of less than a pack up to the first multiple of 16 bytes, a body
/// of 16-byte packs, a tail. Threads take the body's packs in turn, several a step, which stay in registers as stored
/// from their loads to their exponentials; the columns of head and tail are taken one by one. The teacher or the
/// gradient may lie otherwise: such a stream is read or written value by value.

#include <vocabloss/impl/portable/pack_io.hpp>
#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>

#include <cstdint>

namespace vocabloss::Impl {

template <class Loss, class Logit, int columns_per_thread>
class DeviceRow {
 public:
  using Real = typename Loss::Real;
  using Statistics = typename Loss::Statistics;
  static constexpr int lanes = vector_bytes / int(sizeof(Logit));
  static constexpr int packs = columns_per_thread / lanes;
  static_assert(packs * lanes == columns_per_thread, "a thread holds whole packs");
  /// The gradient needs no maximum over the packs held: two are enough to keep loads in flight.
  static constexpr int packs_of_gradient = packs < 2 ? packs : 2;

  KOKKOS_INLINE_FUNCTION DeviceRow(const Loss& loss, const RowCall<Real>& call, std::int64_t row, int rank, int team)
      : loss_(loss), call_(call), row_(row), rank_(rank), team_(team), logits_(call.logits.template row<Logit>(row)) {
    const unsigned past = reinterpret_cast<std::uintptr_t>(logits_) % vector_bytes / sizeof(Logit);
    const unsigned columns = call.columns;
    head_ = past == 0 ? 0 : unsigned(lanes) - past;
    if (head_ > columns) head_ = columns;
    packs_ = (columns - head_) / lanes;
    teacher_is_float_ = Loss::streams == 2 && call.teacher.type != Precision<Logit>::type;
  }

  template <int Round>
  KOKKOS_INLINE_FUNCTION typename Loss::template State<Round> find_state(const Statistics& statistics,
                                                                         int label) const {
    auto state = Loss::template identity<Round, 1>();
    if (teacher_is_float_) {
      // Twice the bits of the logits: one pack at a time, or the registers would not hold them.
      absorb_body<Round, 1, float>(state, statistics, label);
    } else {
      absorb_body<Round, packs, Logit>(state, statistics, label);
    }
    for (unsigned e = rank_; e < edges(); e += team_) {
      loss::absorb<Round>(loss_, state, statistics, edge(e), label);
    }
    return state;
  }

  template <class Slope>
  KOKKOS_INLINE_FUNCTION void write_gradient(const Slope& slope, int label) const {
    for (unsigned e = rank_; e < edges(); e += team_) {
      const auto columns = edge(e);
      store<1>(columns.first, loss_.gradient(slope, columns, label), false);
    }
    if (teacher_is_float_) {
      write_body<1, float>(slope, label);
    } else {
      write_body<packs_of_gradient, Logit>(slope, label);
    }
  }

  KOKKOS_INLINE_FUNCTION void write_zeros() const {
    if (call_.gradient.accumulate) return;
    loss::Pack<Real, lanes> zeros;
    for (int j = 0; j < lanes; ++j) zeros.lane[j] = Real(0);
    const bool aligned = gradient_is_aligned();
    for (unsigned e = rank_; e < edges(); e += team_)
      store<1>(column_of_edge(e), loss::Pack<Real, 1>{{Real(0)}}, false);
    for (unsigned p = rank_; p < packs_; p += team_) store<lanes>(column_of_pack(p), zeros, aligned);
  }

 private:
  KOKKOS_INLINE_FUNCTION unsigned edges() const { return unsigned(call_.columns) - packs_ * lanes; }
  KOKKOS_INLINE_FUNCTION int column_of_edge(unsigned e) const { return int(e < head_ ? e : e + packs_ * lanes); }
  KOKKOS_INLINE_FUNCTION int column_of_pack(unsigned p) const { return int(head_ + p * lanes); }
  template <class T>
  KOKKOS_INLINE_FUNCTION const T* teacher() const {
    return call_.teacher.template row<T>(row_);
  }
  KOKKOS_INLINE_FUNCTION bool gradient_is_aligned() const {
    return call_.gradient.type == Precision<Logit>::type
               ? is_vector_aligned(call_.gradient.template row<Logit>(row_) + head_)
               : is_vector_aligned(call_.gradient.template row<float>(row_) + head_);
  }

  KOKKOS_INLINE_FUNCTION loss::Columns<Real, 1> edge(unsigned e) const {
    loss::Columns<Real, 1> columns;
    columns.first = column_of_edge(e);
    columns.x.lane[0] = widen(logits_[columns.first]);
    if constexpr (Loss::streams == 2) {
      columns.t.lane[0] = teacher_is_float_ ? Real(widen(teacher<float>()[columns.first]))
                                            : Real(widen(teacher<Logit>()[columns.first]));
    }
    return columns;
  }

  /// Some packs of the body as stored, `team_` packs apart.
  template <int count, class Teacher>
  struct Held {
    StoredPack<Logit, lanes> x[count];
    StoredPack<Teacher, lanes> t[Loss::streams == 2 ? count : 1];

    KOKKOS_INLINE_FUNCTION loss::Columns<Real, lanes> columns(int p, int first) const {
      loss::Columns<Real, lanes> result;
      result.first = first;
      for (int j = 0; j < lanes; ++j) {
        result.x.lane[j] = widen(x[p].get(j));
        if constexpr (Loss::streams == 2) result.t.lane[j] = Real(widen(t[p].get(j)));
      }
      return result;
    }
  };

  /// Column of a thread's pack p of the step that starts at `from`, or -1 beyond the body. `last_first`: packs are
  /// counted from the end of the row.
  template <bool last_first>
  KOKKOS_INLINE_FUNCTION int column_in_step(unsigned from, int p) const {
    const unsigned pack = from + p * team_;
    return pack < packs_ ? column_of_pack(last_first ? packs_ - 1 - pack : pack) : -1;
  }

  template <int count, class Teacher, bool last_first>
  KOKKOS_INLINE_FUNCTION void load(Held<count, Teacher>& held, unsigned from, bool teacher_is_aligned) const {
    for (int p = 0; p < count; ++p) {
      const int first = column_in_step<last_first>(from, p);
      if (first < 0) continue;
      held.x[p].load(logits_ + first, true);
      if constexpr (Loss::streams == 2) held.t[p].load(teacher<Teacher>() + first, teacher_is_aligned);
    }
  }
  template <class Teacher>
  KOKKOS_INLINE_FUNCTION bool teacher_is_aligned() const {
    return Loss::streams == 2 && is_vector_aligned(teacher<Teacher>() + head_);
  }

  template <int Round, int count, class Teacher, class State>
  KOKKOS_INLINE_FUNCTION void absorb_body(State& state, const Statistics& statistics, int label) const {
    const bool aligned = teacher_is_aligned<Teacher>();
    for (unsigned from = rank_; from < packs_; from += count * team_) {
      Held<count, Teacher> held;
      load<count, Teacher, false>(held, from, aligned);
      Real max_x = loss::empty_maximum<Real>();
      Real max_t = Loss::streams == 2 && Loss::teacher_is_logits ? max_x : Real(0);
      for (int p = 0; p < count; ++p) {
        const int first = column_in_step<false>(from, p);
        if (first < 0) continue;
        const auto columns = held.columns(p, first);
        max_x = loss::larger(max_x, loss::largest(columns.x));
        if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) {
          max_t = loss::larger(max_t, loss::largest(columns.t));
        }
      }
      loss_.template raise<Round>(state, max_x, max_t);
      for (int p = 0; p < count; ++p) {
        const int first = column_in_step<false>(from, p);
        if (first >= 0) loss_.template accumulate<Round>(state, statistics, held.columns(p, first), label);
      }
    }
  }

  template <int count, class Teacher, class Slope>
  KOKKOS_INLINE_FUNCTION void write_body(const Slope& slope, int label) const {
    const bool aligned = teacher_is_aligned<Teacher>();
    const bool gradient_aligned = gradient_is_aligned();
    for (unsigned from = rank_; from < packs_; from += count * team_) {
      Held<count, Teacher> held;
      load<count, Teacher, true>(held, from, aligned);
      for (int p = 0; p < count; ++p) {
        const int first = column_in_step<true>(from, p);
        if (first >= 0) store<lanes>(first, loss_.gradient(slope, held.columns(p, first), label), gradient_aligned);
      }
    }
  }

  template <int N>
  KOKKOS_INLINE_FUNCTION void store(int column, const loss::Pack<Real, N>& pack, bool aligned) const {
    if (call_.gradient.type == Precision<Logit>::type) {
      store_as<Logit>(column, pack, aligned);
    } else {
      store_as<float>(column, pack, aligned);
    }
  }
  template <class Gradient, int N>
  KOKKOS_INLINE_FUNCTION void store_as(int column, const loss::Pack<Real, N>& pack, bool aligned) const {
    Gradient* to = call_.gradient.template row<Gradient>(row_) + column;
    StoredPack<Gradient, N> stored;
    if (call_.gradient.accumulate) {
      stored.load(to, aligned);
      for (int j = 0; j < N; ++j) stored.set(j, narrow<Gradient>(Real(widen(stored.get(j))) + pack.lane[j]));
    } else {
      for (int j = 0; j < N; ++j) stored.set(j, narrow<Gradient>(pack.lane[j]));
    }
    stored.store(to, aligned);
  }

  const Loss& loss_;
  const RowCall<Real>& call_;
  std::int64_t row_;
  unsigned rank_, team_;
  const Logit* logits_;
  unsigned head_;   ///< columns before the first whole pack
  unsigned packs_;  ///< whole packs
  bool teacher_is_float_;
};

}  // namespace vocabloss::Impl

#endif
