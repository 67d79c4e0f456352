// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_ALLGATHER_EXCHANGE_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_ALLGATHER_EXCHANGE_HPP

/// \file
/// \brief Exchange `allgather`: one gather of whole states a round, merged in the order of the ranks on every rank.
///
/// Over an asynchronous communicator the gather of one block of rows runs beside the kernels of the next, each block in
/// a slot of buffers of its own; otherwise there is one slot. One block has nothing to run beside, and stays on the
/// caller's stream.

#include <vocabloss/impl/distributed/side_stream.hpp>
#include <vocabloss/impl/distributed/stages.hpp>

#include <cstdint>

namespace vocabloss::Impl {

template <class Loss, class Logit, class Exec, class Comm>
class AllgatherExchange {
 public:
  using Real = typename Loss::Real;
  static constexpr bool overlaps = Comm::is_asynchronous && SideStream<Exec>::exists;
  static constexpr int slots = overlaps ? Loss::rounds + 1 : 1;

  static std::size_t reals(const LaunchPlan& plan) {
    return std::size_t(slots) * plan.block_rows * most_state_words<Loss>() * (1 + plan.ranks);
  }

  /// `side`: where the exchanges of several blocks overlap; null for one block, or where nothing overlaps.
  AllgatherExchange(Comm& comm, const SideStream<Exec>* side, const LaunchPlan& plan,
                    const Stages<Loss, Logit, Exec>& stages, Real* buffer)
      : comm_(comm), side_(side), plan_(plan), stages_(stages), buffer_(buffer) {}

  /// Round's partial states of the rows of `call`, and their way to all ranks.
  template <int Round>
  void start(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, int slot) {
    const std::size_t count = std::size_t(call.rows) * StateWords<Loss, Round>::count;
    Real* states = states_of(slot);
    Real* gathered = gathered_of(slot);
    stages_.template run<Round>(exec, loss, call, pass, merged(call, slot), states);
    const auto gather = [&](const auto& where) {
      if constexpr (Comm::is_asynchronous) fill_with_nan(where, gathered, count * plan_.ranks);
      comm_.all_gather(where, static_cast<const Real*>(states), gathered, count);
    };
    if constexpr (overlaps) {
      if (side_) return side_->run(exec, slot, gather);
    }
    gather(exec);
  }
  void join(const Exec& exec, int slot) const {
    if constexpr (overlaps) {
      if (side_) side_->join(exec, slot);
    }
  }
  MergedStates<Real> merged(const RowCall<Real>& call, int slot) const {
    MergedStates<Real> states;
    states.gathered = gathered_of(slot);
    states.ranks = plan_.ranks;
    states.rows = call.rows;
    return states;
  }

 private:
  Real* states_of(int slot) const {
    return buffer_ + std::size_t(slot) * plan_.block_rows * most_state_words<Loss>() * (1 + plan_.ranks);
  }
  Real* gathered_of(int slot) const { return states_of(slot) + plan_.block_rows * most_state_words<Loss>(); }

  Comm& comm_;
  const SideStream<Exec>* side_;
  const LaunchPlan& plan_;
  const Stages<Loss, Logit, Exec>& stages_;
  Real* buffer_;
};

}  // namespace vocabloss::Impl

#endif
