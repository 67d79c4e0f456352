// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_STATE_REDUCER_HPP
#define VOCABLOSS_IMPL_PORTABLE_STATE_REDUCER_HPP

/// \file
/// \brief The algebra's merge as a Kokkos reducer: how the threads of a team agree on the state of a row.
///
/// Unlike Kokkos::Sum it holds the loss, because merging rescales with the loss's scales. Kokkos joins the threads of a
/// team in a fixed order, so the same launch gives the same bits.

#include <vocabloss/loss/concept.hpp>

#include <Kokkos_Core.hpp>

namespace vocabloss::Impl {

/// States that tell the columns at a maximum from the others: every loss has them.
template <class Loss, int Round>
struct ExactMerge {
  using Value = typename Loss::template State<Round>;

  KOKKOS_INLINE_FUNCTION static Value identity() { return Loss::template identity<Round, 1>(); }
  KOKKOS_INLINE_FUNCTION static void join(const Loss& loss, Value& into, const Value& from) {
    into = loss.template merge<Round>(into, from);
  }
};

/// What a thread, or a team, found of a row in fewer instructions: see concept.hpp.
template <class Real>
struct PlainState {
  loss::PlainSums<Real> sums;
  Real label_logit = Real(0);  ///< 0 where the label is elsewhere
};

template <class Loss, int Round>
struct PlainMerge {
  using Real = typename Loss::Real;
  using Value = PlainState<Real>;

  KOKKOS_INLINE_FUNCTION static Value identity() { return {}; }
  KOKKOS_INLINE_FUNCTION static void join(const Loss& loss, Value& into, const Value& from) {
    Value other = from;
    if constexpr (Loss::template round_sums<Round>.maxima) {
      const Real max_x = loss::larger(into.sums.x.maximum, from.sums.x.maximum);
      const Real max_t = loss::larger(into.sums.t.maximum, from.sums.t.maximum);
      loss.template raise_plainly<Round>(into.sums, max_x, max_t);
      loss.template raise_plainly<Round>(other.sums, max_x, max_t);
    }
    into.sums.add(other.sums);
    into.label_logit += other.label_logit;
  }
};

template <class Loss, class Merge, class Space>
class StateReducer {
 public:
  using reducer = StateReducer;
  using value_type = typename Merge::Value;
  using result_view_type = Kokkos::View<value_type, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  KOKKOS_INLINE_FUNCTION StateReducer(const Loss& loss, value_type& value) : loss_(loss), value_(value) {}

  KOKKOS_INLINE_FUNCTION void init(value_type& value) const { value = Merge::identity(); }
  KOKKOS_INLINE_FUNCTION void join(value_type& into, const value_type& from) const { Merge::join(loss_, into, from); }
  KOKKOS_INLINE_FUNCTION value_type& reference() const { return value_; }
  KOKKOS_INLINE_FUNCTION result_view_type view() const { return result_view_type(&value_); }
  KOKKOS_INLINE_FUNCTION bool references_scalar() const { return true; }

 private:
  const Loss& loss_;
  value_type& value_;
};

/// Merges what each thread holds; all threads get the result.
template <class Merge, class Member, class Loss>
KOKKOS_INLINE_FUNCTION typename Merge::Value merge_team(const Member& member, const Loss& loss,
                                                        typename Merge::Value of_thread) {
  typename Merge::Value total = of_thread;
  const StateReducer<Loss, Merge, typename Member::scratch_memory_space> reducer(loss, total);
  member.team_reduce(reducer, of_thread);
  return total;
}

}  // namespace vocabloss::Impl

#endif
