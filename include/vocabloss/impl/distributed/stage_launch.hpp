// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_STAGE_LAUNCH_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_STAGE_LAUNCH_HPP

/// \file
/// \brief Every kernel that a shared vocabulary launches for a loss, behind plain functions that know no communicator:
/// the library holds them compiled for the shipped losses on the default execution space
/// (src/portable/stage_launch.cpp.in).

#include <vocabloss/impl/distributed/stage_kernel.hpp>
#include <vocabloss/impl/portable/team_path.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace vocabloss::Impl {

/// A stage or round is a run-time number here, so that an explicit instantiation of the class holds them all.
template <class Loss, class Logit, class Exec>
struct StageLaunch {
  using Real = typename Loss::Real;

  /// Enqueues one stage over the rows of `call`.
  static void run(int stage, const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass,
                  const LaunchPlan& plan, const MergedStates<Real>& merged, Real* states);
  /// The maxima among the words of each row's state.
  static void store_maxima(int round, const Exec& exec, std::int64_t rows, const Real* states, Real* maxima);
  /// The sums among them, once the state is lifted to the maxima of all ranks.
  static void store_raised_sums(int round, const Exec& exec, const Loss& loss, std::int64_t rows, const Real* states,
                                const Real* maxima_of_all, Real* sums);
  /// Losses and statistics of the rows from the merged states of round 0, and no gradient: the last stage of a loss of
  /// one round whose gradient another kernel writes from the statistics. A thread a row.
  static void finish(const Exec& exec, const Loss& loss, const RowCall<Real>& call, const MergedStates<Real>& merged);
  /// Rows that an error left unfinished: statistics of NaN, and the losses and the gradient that follow from them.
  static void poison(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, const LaunchPlan& plan);

  // Public because nvcc wants a function that holds a device lambda to be.

  template <int Stage>
  static void run_stage(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass,
                        const LaunchPlan& plan, const MergedStates<Real>& merged, Real* states) {
    const int league = static_cast<int>(std::min<std::int64_t>(call.rows, std::numeric_limits<int>::max()));
    const auto launch = [&]<int columns_per_thread>(std::integral_constant<int, columns_per_thread>) {
      using Kernel = StageKernel<Loss, Logit, Exec, columns_per_thread, Stage>;
      Kokkos::parallel_for(Stage == 0              ? "VocabLoss::staged::partial"
                           : Stage == Loss::rounds ? "VocabLoss::staged::finish"
                                                   : "VocabLoss::staged::next_round",
                           typename Kernel::Policy(exec, league, plan.team_size, 1),
                           Kernel{loss, call, pass, plan.block_cap, merged, states});
    };
    constexpr int narrow = narrow_columns_per_thread(sizeof(Logit));
    constexpr int wide = wide_columns_per_thread(sizeof(Logit), Loss::streams);
    if constexpr (!runs_on_host<Exec> && wide > narrow) {
      if (plan.block_cap > narrow * plan.team_size) {
        return launch(std::integral_constant<int, wide>{});
      }
    }
    launch(std::integral_constant<int, narrow>{});
  }

  template <int Round>
  static void store_maxima_of(const Exec& exec, std::int64_t rows, const Real* states, Real* maxima) {
    using Words = StateWords<Loss, Round>;
    for_rows(
        "VocabLoss::staged::maxima", exec, rows, KOKKOS_LAMBDA(const std::int64_t row) {
          Words::store_maxima(maxima + row * Words::maxima(), Words::load(states + row * Words::count));
        });
  }
  template <int Round>
  static void store_raised_sums_of(const Exec& exec, const Loss& loss, std::int64_t rows, const Real* states,
                                   const Real* maxima_of_all, Real* sums) {
    using Words = StateWords<Loss, Round>;
    const Loss algebra = loss;
    for_rows(
        "VocabLoss::staged::raise", exec, rows, KOKKOS_LAMBDA(const std::int64_t row) {
          auto state = Words::load(states + row * Words::count);
          Words::raise(algebra, state, maxima_of_all + row * Words::maxima());
          Words::store_sums(sums + row * Words::sums(), state);
        });
  }
  template <int Round>
  static void finish_rows(const Exec& exec, const Loss& loss, const RowCall<Real>& rows,
                          const MergedStates<Real>& merged_states) {
    const Loss algebra = loss;
    const RowCall<Real> call = rows;
    const MergedStates<Real> merged = merged_states;
    for_rows(
        "VocabLoss::staged::finish_rows", exec, rows.rows, KOKKOS_LAMBDA(const std::int64_t row) {
          const RowFacts<Real> facts = row_facts(call, row);
          typename Loss::Statistics statistics{};
          if (facts.status == RowStatus::poisoned) {
            loss::poison(statistics, loss::not_a_number<Real>());
          } else if (facts.status == RowStatus::counts) {
            algebra.template finish<Round>(statistics, merged.template of_row<Round>(algebra, row));
          }
          store_losses(algebra, call, row, facts, statistics);
          if (facts.status != RowStatus::masked) store_statistics<Loss>(call, row, statistics);
        });
  }
  static void poison_statistics(const Exec& exec, const Loss& loss, const RowCall<Real>& rows) {
    const Loss algebra = loss;
    const RowCall<Real> call = rows;
    for_rows(
        "VocabLoss::staged::poison", exec, rows.rows, KOKKOS_LAMBDA(const std::int64_t row) {
          typename Loss::Statistics statistics;
          loss::poison(statistics, loss::not_a_number<Real>());
          store_losses(algebra, call, row, row_facts(call, row), statistics);
          store_statistics<Loss>(call, row, statistics);
        });
  }

 private:
  template <class Body>
  static void for_rows(const char* label, const Exec& exec, std::int64_t rows, const Body& body) {
    // Light weight for the same reason as TeamKernel::Policy.
    using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>,
                                       Kokkos::Experimental::WorkItemProperty::HintLightWeight_t>;
    Kokkos::parallel_for(label, Policy(exec, 0, rows), body);
  }
  /// Calls `action` with the run-time number as a type, from `First` to `Last`.
  template <int First, int Last, class Action>
  static void with_number(int number, Action&& action) {
    if (number == First) return action(std::integral_constant<int, First>{});
    if constexpr (First < Last) with_number<First + 1, Last>(number, action);
  }
};

// Outside the class, so that they are not inline and `extern template` keeps the kernels out of users' objects.

template <class Loss, class Logit, class Exec>
void StageLaunch<Loss, Logit, Exec>::run(int stage, const Exec& exec, const Loss& loss, const RowCall<Real>& call,
                                         Pass pass, const LaunchPlan& plan, const MergedStates<Real>& merged,
                                         Real* states) {
  if (call.rows == 0) return;
  with_number<0, Loss::rounds>(
      stage, [&](auto number) { run_stage<decltype(number)::value>(exec, loss, call, pass, plan, merged, states); });
}

template <class Loss, class Logit, class Exec>
void StageLaunch<Loss, Logit, Exec>::store_maxima(int round, const Exec& exec, std::int64_t rows, const Real* states,
                                                  Real* maxima) {
  with_number<0, Loss::rounds - 1>(
      round, [&](auto number) { store_maxima_of<decltype(number)::value>(exec, rows, states, maxima); });
}

template <class Loss, class Logit, class Exec>
void StageLaunch<Loss, Logit, Exec>::store_raised_sums(int round, const Exec& exec, const Loss& loss, std::int64_t rows,
                                                       const Real* states, const Real* maxima_of_all, Real* sums) {
  with_number<0, Loss::rounds - 1>(round, [&](auto number) {
    store_raised_sums_of<decltype(number)::value>(exec, loss, rows, states, maxima_of_all, sums);
  });
}

template <class Loss, class Logit, class Exec>
void StageLaunch<Loss, Logit, Exec>::finish(const Exec& exec, const Loss& loss, const RowCall<Real>& call,
                                            const MergedStates<Real>& merged) {
  if constexpr (Loss::rounds == 1) finish_rows<0>(exec, loss, call, merged);
}

template <class Loss, class Logit, class Exec>
void StageLaunch<Loss, Logit, Exec>::poison(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass,
                                            const LaunchPlan& plan) {
  if (call.rows == 0) return;
  poison_statistics(exec, loss, call);
  if (pass != Pass::forward && call.columns > 0) {
    TeamPath<Loss, Logit, Exec>::run(exec, loss, call, Pass::backward, plan, nullptr);
  }
}

/// The same with the stage as a template argument and the loss deduced.
template <int Stage, class Logit, class Exec, class Loss, class Real = typename Loss::Real>
void run_stage(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, const LaunchPlan& plan,
               const MergedStates<Real>& merged, Real* states) {
  StageLaunch<Loss, Logit, Exec>::run(Stage, exec, loss, call, pass, plan, merged, states);
}
template <class Logit, class Exec, class Loss, class Real = typename Loss::Real>
void poison_rows(const Exec& exec, const Loss& loss, const RowCall<Real>& rows, Pass pass, const LaunchPlan& plan) {
  StageLaunch<Loss, Logit, Exec>::poison(exec, loss, rows, pass, plan);
}

}  // namespace vocabloss::Impl

VOCABLOSS_IMPL_SHIPPED(extern template, vocabloss::Impl::StageLaunch, Kokkos::DefaultExecutionSpace)

#endif
