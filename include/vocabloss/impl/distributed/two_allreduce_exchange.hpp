// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_TWO_ALLREDUCE_EXCHANGE_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_TWO_ALLREDUCE_EXCHANGE_HPP

/// \file
/// \brief Exchange `two_allreduce`: the maxima of all ranks first, then the sums of the states raised to them.
///
/// The scheme of Megatron-LM's vocabulary-parallel cross-entropy (Shoeybi et al., 2019, section 3), for every loss. The
/// order in which sums meet is the communicator's own.

#include <vocabloss/impl/distributed/side_stream.hpp>
#include <vocabloss/impl/distributed/stages.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace vocabloss::Impl {

template <class Loss, class Logit, class Exec, class Comm>
class TwoAllreduceExchange {
 public:
  using Real = typename Loss::Real;
  static constexpr bool overlaps = false;
  static constexpr int slots = 1;

  /// Own states, own maxima, maxima of all, own sums, sums of all.
  static std::size_t reals(const LaunchPlan& plan) { return std::size_t(5) * plan.block_rows * words; }

  TwoAllreduceExchange(Comm& comm, const LaunchPlan& plan, const Stages<Loss, Logit, Exec>& stages, Real* buffer)
      : comm_(comm), plan_(plan), stages_(stages), buffer_(buffer) {}

  template <int Round>
  void start(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, int slot) {
    using Words = StateWords<Loss, Round>;
    stages_.template run<Round>(exec, loss, call, pass, merged(call, slot), part(0));
    if (Words::maxima() > 0) {
      Launch::store_maxima(Round, exec, call.rows, part(0), part(1));
      all_reduce(exec, part(1), part(2), call.rows * Words::maxima(), true);
    }
    Launch::store_raised_sums(Round, exec, loss, call.rows, part(0), part(2), part(3));
    all_reduce(exec, part(3), part(4), call.rows * Words::sums(), false);
  }
  void join(const Exec&, int) const {}
  MergedStates<Real> merged(const RowCall<Real>& call, int) const {
    MergedStates<Real> states;
    states.maxima = part(2);
    states.sums = part(4);
    states.ranks = plan_.ranks;
    states.rows = call.rows;
    return states;
  }

 private:
  using Launch = StageLaunch<Loss, Logit, Exec>;
  static constexpr int words = most_state_words<Loss>();

  Real* part(int k) const { return buffer_ + std::size_t(k) * plan_.block_rows * words; }

  void all_reduce(const Exec& exec, const Real* in, Real* out, std::int64_t count, bool maximum) {
    if constexpr (Comm::is_asynchronous) fill_with_nan(exec, out, count);
    if (maximum) {
      comm_.all_reduce_max(exec, in, out, count);
    } else {
      comm_.all_reduce_sum(exec, in, out, count);
    }
  }

  Comm& comm_;
  const LaunchPlan& plan_;
  const Stages<Loss, Logit, Exec>& stages_;
  Real* buffer_;
};

}  // namespace vocabloss::Impl

#endif
