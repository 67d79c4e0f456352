// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_TEAM_KERNEL_HPP
#define VOCABLOSS_IMPL_PORTABLE_TEAM_KERNEL_HPP

/// \file
/// \brief The kernel of path `team`: a Kokkos team a row; statistics, then the gradient while the row is still in
/// cache.
///
/// What a row is (masked, poisoned, ordinary) is decided here and is uniform in a team. How its columns are read is
/// host_row.hpp (one CPU thread a row) or device_row.hpp (threads of a GPU's team side by side).

#include <vocabloss/impl/portable/device_row.hpp>
#include <vocabloss/impl/portable/host_row.hpp>
#include <vocabloss/impl/portable/team_choice.hpp>
#include <vocabloss/impl/portable/team_state.hpp>
#include <vocabloss/loss/math.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace vocabloss::Impl {

/// Whether an execution space runs on the host's cores.
template <class Exec>
inline constexpr bool runs_on_host = Kokkos::SpaceAccessibility<Exec, Kokkos::HostSpace>::accessible;

/// `columns_per_thread`: of a GPU; a CPU takes its tile from `tile` at run time.
template <class Loss, class Logit, class Exec, int columns_per_thread>
struct TeamKernel {
  using Real = typename Loss::Real;
  using Statistics = typename Loss::Statistics;
  /// Light weight: Kokkos hands the functor over as a kernel argument whatever its size. Above 512 bytes it would go
  /// through constant memory, which waits for the previous kernel and cannot be captured in a CUDA graph.
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<largest_team(columns_per_thread, sizeof(Logit)), 1>,
                                    Kokkos::Experimental::WorkItemProperty::HintLightWeight_t>;
  using Member = typename Policy::member_type;

  Loss loss;
  RowCall<Real> call;
  Pass pass;
  int tile;

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

  KOKKOS_INLINE_FUNCTION void store_results(std::int64_t row, const RowFacts<Real>& facts,
                                            const Statistics& statistics) const {
    if (pass == Pass::backward) return;
    store_losses(loss, call, row, facts, statistics);
    if (facts.status != RowStatus::masked) store_statistics<Loss>(call, row, statistics);
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
    if constexpr (!std::is_same_v<Logit, float>) {
      if (call.gradient.type != Precision<Logit>::type) return visit_with_types<Teacher, float>(row, facts);
    }
    visit_with_types<Teacher, Logit>(row, facts);
  }

  template <class Teacher, class Gradient>
  void visit_with_types(std::int64_t row, const RowFacts<Real>& facts) const {
    Statistics statistics{};
    Gradient* gradient = pass == Pass::forward ? nullptr : call.gradient.template row<Gradient>(row);
    if (facts.status == RowStatus::masked) {
      store_results(row, facts, statistics);
      for (int c = 0; gradient && !call.gradient.accumulate && c < call.columns; ++c) gradient[c] = Gradient{};
      return;
    }
    const HostRow<Loss, Logit, Teacher> columns(loss, call, row, tile);
    if (facts.status == RowStatus::poisoned) {
      loss::poison(statistics, loss::not_a_number<Real>());
    } else if (pass == Pass::backward) {
      statistics = load_statistics<Loss>(call, row);
    } else {
      columns.template find_statistics<0>(statistics, facts.row.label);
      if constexpr (Loss::rounds == 2) columns.template find_statistics<1>(statistics, facts.row.label);
    }
    store_results(row, facts, statistics);
    if (gradient) columns.write_gradient(statistics, facts.row, gradient, call.gradient.accumulate);
  }

  // ---- GPU ----

  KOKKOS_INLINE_FUNCTION void visit_on_device(const Member& member, std::int64_t row,
                                              const RowFacts<Real>& facts) const {
    const DeviceRow<Loss, Logit, columns_per_thread> columns(loss, call, row, member.team_rank(), member.team_size());
    Statistics statistics{};
    if (facts.status == RowStatus::poisoned) {
      loss::poison(statistics, loss::not_a_number<Real>());
    } else if (facts.status == RowStatus::counts && pass == Pass::backward) {
      statistics = load_statistics<Loss>(call, row);
    } else if (facts.status == RowStatus::counts) {
      find_round<0>(member, columns, statistics, facts.row.label);
      if constexpr (Loss::rounds == 2) find_round<1>(member, columns, statistics, facts.row.label);
    }
    Kokkos::single(Kokkos::PerTeam(member), [&]() { store_results(row, facts, statistics); });
    if (pass == Pass::forward) return;
    if (facts.status == RowStatus::masked) {
      columns.write_zeros();
    } else {
      columns.write_gradient(loss.gradient_row(statistics, facts.row), facts.row.label);
    }
  }

  template <int Round, class Row>
  KOKKOS_INLINE_FUNCTION void find_round(const Member& member, const Row& columns, Statistics& statistics,
                                         int label) const {
    loss.template finish<Round>(statistics, find_state_of_team<Round>(member, loss, columns, statistics, label));
  }
};

}  // namespace vocabloss::Impl

#endif
