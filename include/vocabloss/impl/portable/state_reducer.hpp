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

template <class Loss, int Round, class Space>
class StateReducer {
 public:
  using reducer = StateReducer;
  using value_type = typename Loss::template State<Round>;
  using result_view_type = Kokkos::View<value_type, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  KOKKOS_INLINE_FUNCTION StateReducer(const Loss& loss, value_type& value) : loss_(loss), value_(value) {}

  KOKKOS_INLINE_FUNCTION void init(value_type& value) const { value = Loss::template identity<Round, 1>(); }
  KOKKOS_INLINE_FUNCTION void join(value_type& into, const value_type& from) const {
    into = loss_.template merge<Round>(into, from);
  }
  KOKKOS_INLINE_FUNCTION value_type& reference() const { return value_; }
  KOKKOS_INLINE_FUNCTION result_view_type view() const { return result_view_type(&value_); }
  KOKKOS_INLINE_FUNCTION bool references_scalar() const { return true; }

 private:
  const Loss& loss_;
  value_type& value_;
};

}  // namespace vocabloss::Impl

#endif
