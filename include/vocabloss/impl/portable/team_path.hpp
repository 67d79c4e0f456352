// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_TEAM_PATH_HPP
#define VOCABLOSS_IMPL_PORTABLE_TEAM_PATH_HPP

/// \file
/// \brief Path `team`: one Kokkos TeamPolicy kernel, a team a row, on any execution space.
///
/// Two reads and one write of each stream (JSD three reads), of which the later reads come from a cache while the rows
/// in flight fit it. Reads and writes any row stride and alignment.

#include <vocabloss/impl/portable/team_choice.hpp>
#include <vocabloss/impl/portable/team_kernel.hpp>
#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

namespace vocabloss::Impl {

constexpr const char* team_label(Pass pass) {
  return pass == Pass::forward    ? "VocabLoss::team::forward"
         : pass == Pass::backward ? "VocabLoss::team::backward"
                                  : "VocabLoss::team::forward_backward";
}

template <class Loss, class Logit, class Exec>
struct TeamPath {
  using Real = typename Loss::Real;

  /// It runs everything.
  static std::string refusal(const Problem&, const LaunchPlan&) { return {}; }

  static LaunchPlan choose(const Problem& problem, const PlanRequest& request) {
    TeamShape shape;
    if constexpr (runs_on_host<Exec>) {
      shape = host_team_shape(request.block_cap, host_lanes);
    } else {
      shape = device_team_shape(request.block_cap, problem.partition.columns, wide, sizeof(Logit));
    }
    LaunchPlan plan;
    plan.path = Path::team;
    plan.block_cap = shape.block_cap;
    plan.team_size = shape.team_size;
    return plan;
  }

  static std::size_t workspace_bytes(const Problem&, const LaunchPlan&) { return 0; }

  static void run(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, const LaunchPlan& plan,
                  void* workspace);

 private:
  static constexpr int host_lanes = HostRow<Loss, Logit, Logit>::lanes;
  static constexpr int narrow = narrow_columns_per_thread(sizeof(Logit));
  static constexpr int wide = wide_columns_per_thread(sizeof(Logit), Loss::streams);

  template <int columns_per_thread>
  static void launch(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, const LaunchPlan& plan) {
    using Kernel = TeamKernel<Loss, Logit, Exec, columns_per_thread>;
    // The league counts in int; teams take further rows in turn.
    const int league = static_cast<int>(std::min<std::int64_t>(call.rows, std::numeric_limits<int>::max()));
    Kokkos::parallel_for(team_label(pass), typename Kernel::Policy(exec, league, plan.team_size, 1),
                         Kernel{loss, call, pass, plan.block_cap});
  }
};

/// Outside the class, so that it is not inline and `extern template` keeps the kernels out of users' objects.
template <class Loss, class Logit, class Exec>
void TeamPath<Loss, Logit, Exec>::run(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass,
                                      const LaunchPlan& plan, void* /*workspace*/) {
  if (call.rows == 0) return;
  if constexpr (!runs_on_host<Exec> && wide > narrow) {
    if (plan.block_cap > narrow * plan.team_size) return launch<wide>(exec, loss, call, pass, plan);
  }
  launch<narrow>(exec, loss, call, pass, plan);
}

}  // namespace vocabloss::Impl

#include <vocabloss/impl/extern_templates.hpp>

#endif
