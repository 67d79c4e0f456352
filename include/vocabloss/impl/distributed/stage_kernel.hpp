// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_STAGE_KERNEL_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_STAGE_KERNEL_HPP

/// \file
/// \brief The kernel of path `team` cut where the ranks exchange: one launch between two exchanges.
///
///     stage 0          partial states of round 0 over this shard's columns
///     stage 1          merge what the ranks sent for round 0, finish it; partial states of round 1
///     ...
///     stage `rounds`   merge and finish the last round; losses, gradient
///
/// A team a row, as in portable/team_kernel.hpp, whose rows (host_row.hpp, device_row.hpp) it shares. An empty shard
/// has the state of no column and no gradient. Launched by stage_launch.hpp.

#include <vocabloss/impl/distributed/state_words.hpp>
#include <vocabloss/impl/portable/team_kernel.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

namespace vocabloss::Impl {

template <class Loss, class Logit, class Exec, int columns_per_thread, int Stage>
struct StageKernel {
  using Real = typename Loss::Real;
  using Statistics = typename Loss::Statistics;
  using Policy = typename TeamKernel<Loss, Logit, Exec, columns_per_thread>::Policy;
  using Member = typename Policy::member_type;
  static constexpr bool is_last = Stage == Loss::rounds;

  Loss loss;
  RowCall<Real> call;
  Pass pass;
  int tile;
  MergedStates<Real> merged;  ///< of round Stage - 1
  Real* states;               ///< [rows][words]: this shard's, of round Stage

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    for (std::int64_t row = member.league_rank(); row < call.rows; row += member.league_size()) visit(member, row);
  }

 private:
  KOKKOS_INLINE_FUNCTION void visit(const Member& member, std::int64_t row) const {
    const RowFacts<Real> facts = row_facts(call, row);
    if constexpr (runs_on_host<Exec>) {
      KOKKOS_IF_ON_HOST((visit_on_host(row, facts);))
    } else {
      visit_on_device(member, row, facts);
    }
  }

  /// Statistics as far as the exchanges so far tell; poisoned where the label is.
  KOKKOS_INLINE_FUNCTION Statistics find_statistics(std::int64_t row, const RowFacts<Real>& facts) const {
    Statistics statistics{};
    if (facts.status == RowStatus::poisoned) {
      loss::poison(statistics, loss::not_a_number<Real>());
    } else if (facts.status == RowStatus::counts) {
      if constexpr (Stage > 1) statistics = load_statistics<Loss>(call, row);
      if constexpr (Stage > 0) {
        loss.template finish<Stage - 1>(statistics, merged.template of_row<Stage - 1>(loss, row));
      }
    }
    return statistics;
  }

  KOKKOS_INLINE_FUNCTION void store_results(std::int64_t row, const RowFacts<Real>& facts,
                                            const Statistics& statistics) const {
    if constexpr (is_last) store_losses(loss, call, row, facts, statistics);
    if (Stage > 0 && facts.status != RowStatus::masked) store_statistics<Loss>(call, row, statistics);
  }

  KOKKOS_INLINE_FUNCTION bool has_state(const RowFacts<Real>& facts) const {
    return facts.status == RowStatus::counts && call.columns > 0;
  }
  template <class State>
  KOKKOS_INLINE_FUNCTION void store_state(std::int64_t row, const State& state) const {
    using Words = StateWords<Loss, Stage>;
    Words::store(states + row * Words::count, state);
  }

  // ---- CPU ----

  void visit_on_host(std::int64_t row, const RowFacts<Real>& facts) const {
    if constexpr (Loss::streams == 2 && !std::is_same_v<Logit, float>) {
      if (call.teacher.type != Precision<Logit>::type) return visit_with_teacher<float>(row, facts);
    }
    visit_with_teacher<Logit>(row, facts);
  }

  template <class Teacher>
  void visit_with_teacher(std::int64_t row, const RowFacts<Real>& facts) const {
    const Statistics statistics = find_statistics(row, facts);
    store_results(row, facts, statistics);
    if constexpr (!is_last) {
      auto state = Loss::template identity<Stage, 1>();
      if (has_state(facts)) {
        state = HostRow<Loss, Logit, Teacher>(loss, call, row, tile)
                    .template find_state<Stage>(statistics, facts.row.label);
      }
      store_state(row, state);
    } else {
      if (pass == Pass::forward || call.columns == 0) return;
      if constexpr (!std::is_same_v<Logit, float>) {
        if (call.gradient.type != Precision<Logit>::type) return write<Teacher, float>(row, facts, statistics);
      }
      write<Teacher, Logit>(row, facts, statistics);
    }
  }

  template <class Teacher, class Gradient>
  void write(std::int64_t row, const RowFacts<Real>& facts, const Statistics& statistics) const {
    Gradient* gradient = call.gradient.template row<Gradient>(row);
    if (facts.status != RowStatus::masked) {
      HostRow<Loss, Logit, Teacher>(loss, call, row, tile)
          .write_gradient(statistics, facts.row, gradient, call.gradient.accumulate);
    } else if (!call.gradient.accumulate) {
      for (int c = 0; c < call.columns; ++c) gradient[c] = Gradient{};
    }
  }

  // ---- GPU ----

  KOKKOS_INLINE_FUNCTION void visit_on_device(const Member& member, std::int64_t row,
                                              const RowFacts<Real>& facts) const {
    const DeviceRow<Loss, Logit, columns_per_thread> columns(loss, call, row, member.team_rank(), member.team_size());
    const Statistics statistics = find_statistics(row, facts);
    if constexpr (Stage > 1) member.team_barrier();  // all have read what one is about to write
    Kokkos::single(Kokkos::PerTeam(member), [&]() { store_results(row, facts, statistics); });
    if constexpr (!is_last) {
      auto total = Loss::template identity<Stage, 1>();
      if (has_state(facts)) total = find_state_of_team<Stage>(member, loss, columns, statistics, facts.row.label);
      Kokkos::single(Kokkos::PerTeam(member), [&]() { store_state(row, total); });
    } else {
      if (pass == Pass::forward || call.columns == 0) return;
      if (facts.status == RowStatus::masked) {
        columns.write_zeros();
      } else {
        columns.write_gradient(loss.gradient_row(statistics, facts.row), facts.row.label);
      }
    }
  }
};

}  // namespace vocabloss::Impl

#endif
