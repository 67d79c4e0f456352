// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_DEVICE_STREAMS_HPP
#define VOCABLOSS_IMPL_PORTABLE_DEVICE_STREAMS_HPP

/// \file
/// \brief Where the columns of a row lie on a GPU, and how they get into registers and back.
///
/// A row is cut by the address of its logits: a head of less than a pack up to the first multiple of 16 bytes, a body
/// of 16-byte packs, a tail. The columns of head and tail, the edges, are taken one by one. The teacher or the gradient
/// may lie otherwise: such a stream is read or written value by value.

#include <vocabloss/impl/portable/stored_pack.hpp>
#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/loss/concept.hpp>

#include <cstdint>

namespace vocabloss::Impl {

template <class Loss, class Logit>
class DeviceStreams {
 public:
  using Real = typename Loss::Real;
  static constexpr int lanes = vector_bytes / int(sizeof(Logit));

  KOKKOS_INLINE_FUNCTION DeviceStreams(const RowCall<Real>& call, std::int64_t row)
      : call_(call), row_(row), logits_(call.logits.template row<Logit>(row)) {
    const unsigned past = reinterpret_cast<std::uintptr_t>(logits_) % vector_bytes / sizeof(Logit);
    const unsigned columns = call.columns;
    head_ = past == 0 ? 0 : unsigned(lanes) - past;
    if (head_ > columns) head_ = columns;
    packs_ = (columns - head_) / lanes;
    teacher_is_float_ = Loss::streams == 2 && call.teacher.type != Precision<Logit>::type;
  }

  KOKKOS_INLINE_FUNCTION unsigned packs() const { return packs_; }
  KOKKOS_INLINE_FUNCTION unsigned edges() const { return unsigned(call_.columns) - packs_ * lanes; }
  KOKKOS_INLINE_FUNCTION int column_of_edge(unsigned e) const { return int(e < head_ ? e : e + packs_ * lanes); }
  KOKKOS_INLINE_FUNCTION int column_of_pack(unsigned p) const { return int(head_ + p * lanes); }

  KOKKOS_INLINE_FUNCTION bool teacher_is_float() const { return teacher_is_float_; }
  template <class T>
  KOKKOS_INLINE_FUNCTION bool teacher_is_aligned() const {
    return Loss::streams == 2 && is_vector_aligned(teacher<T>() + head_);
  }
  /// Whether the teacher's packs are vectors as the logits' are.
  KOKKOS_INLINE_FUNCTION bool teacher_is_parallel() const {
    return Loss::streams == 1 || (!teacher_is_float_ && teacher_is_aligned<Logit>());
  }
  KOKKOS_INLINE_FUNCTION bool gradient_is_aligned() const {
    return call_.gradient.type == Precision<Logit>::type
               ? is_vector_aligned(call_.gradient.template row<Logit>(row_) + head_)
               : is_vector_aligned(call_.gradient.template row<float>(row_) + head_);
  }
  /// Whether the gradient's packs are vectors as the logits' are, and nothing is to be kept of them.
  KOKKOS_INLINE_FUNCTION bool gradient_is_parallel() const {
    return call_.gradient.type == Precision<Logit>::type && !call_.gradient.accumulate && gradient_is_aligned();
  }

  KOKKOS_INLINE_FUNCTION Real logit(int column) const { return widen(logits_[column]); }

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

  /// Some packs of the body as stored.
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
    /// All packs as one, for those who do not ask where the columns are.
    KOKKOS_INLINE_FUNCTION loss::Columns<Real, count * lanes> all_columns() const {
      loss::Columns<Real, count * lanes> result;
      result.first = 0;
      for (int p = 0; p < count; ++p) {
        const auto some = columns(p, 0);
        for (int j = 0; j < lanes; ++j) {
          result.x.lane[p * lanes + j] = some.x.lane[j];
          if constexpr (Loss::streams == 2) result.t.lane[p * lanes + j] = some.t.lane[j];
        }
      }
      return result;
    }
    KOKKOS_INLINE_FUNCTION Real largest_x() const { return largest_of(x); }
    KOKKOS_INLINE_FUNCTION Real largest_t() const {
      if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) return Real(largest_of(t));
      return Real(0);
    }
  };

  /// `aligned`: of the teacher.
  template <int count, class Teacher>
  KOKKOS_INLINE_FUNCTION void load(Held<count, Teacher>& held, int p, int first, bool aligned) const {
    held.x[p].load(logits_ + first, true);
    if constexpr (Loss::streams == 2) held.t[p].load(teacher<Teacher>() + first, aligned);
  }

  /// For the last time, where the teacher is parallel.
  template <int count>
  KOKKOS_INLINE_FUNCTION void load_last(Held<count, Logit>& held, int p, int first) const {
    held.x[p].load_last(logits_ + first);
    if constexpr (Loss::streams == 2) held.t[p].load_last(teacher<Logit>() + first);
  }

  /// A pack of the body where the gradient is parallel.
  KOKKOS_INLINE_FUNCTION void store(int column, const StoredPack<Logit, lanes>& stored) const {
    stored.store(call_.gradient.template row<Logit>(row_) + column, true);
  }
  template <int N>
  KOKKOS_INLINE_FUNCTION void store(int column, const loss::Pack<Real, N>& pack, bool aligned) const {
    if (call_.gradient.type == Precision<Logit>::type) {
      store_as<Logit>(column, pack, aligned);
    } else {
      store_as<float>(column, pack, aligned);
    }
  }

 private:
  template <class T>
  KOKKOS_INLINE_FUNCTION const T* teacher() const {
    return call_.teacher.template row<T>(row_);
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

  const RowCall<Real>& call_;
  std::int64_t row_;
  const Logit* logits_;
  unsigned head_;   ///< columns before the first whole pack
  unsigned packs_;  ///< whole packs
  bool teacher_is_float_;
};

}  // namespace vocabloss::Impl

#endif
