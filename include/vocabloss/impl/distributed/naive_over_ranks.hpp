// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_NAIVE_OVER_RANKS_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_NAIVE_OVER_RANKS_HPP

/// \file
/// \brief Path `naive` between ranks, the comparator that everyone knows: unfused kernels, an all-reduce for each
/// maximum and each sum of a row. A backward finds everything anew, exchanges included.

#include <vocabloss/impl/distributed/side_stream.hpp>
#include <vocabloss/impl/distributed/staged_run.hpp>
#include <vocabloss/impl/naive/naive_path.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace vocabloss::Impl {

template <class Loss, class Logit, class Exec, class Comm>
class NaiveOverRanks {
 public:
  using Real = typename Loss::Real;
  using Naive = NaivePath<Loss, Logit, Exec>;

  static std::string refusal() {
    Problem whole;
    whole.partition = VocabPartition::whole(1);
    return Naive::refusal(whole, {});
  }

  static std::size_t workspace_bytes(const Problem& problem) {
    return Naive::workspace_bytes(problem, {}) + std::max<std::int64_t>(problem.rows, 1) * sizeof(Real);
  }

  static void run(const Exec& exec, Comm& comm, const Loss& loss, const RowCall<Real>& call, Pass pass,
                  const LaunchPlan& plan, char* workspace) {
    if constexpr (Naive::has_formula && naive_is_compiled_for<Exec>) {
      const Kokkos::Profiling::ScopedRegion region("VocabLoss::naive::ranks::" + std::string(name_of(pass)));
      if (pass != Pass::backward) Naive::forget_statistics(exec, call);
      const std::size_t own = NaiveWorkspace<Real>::bytes(naive_loss_of<Loss>, call.rows, call.columns);
      Real* reduced = reinterpret_cast<Real*>(workspace + own);
      NaiveRanks<Real> ranks;
      ranks.maximum = [&](Real* values, std::int64_t rows) {
        fill(exec, reduced, rows);
        comm.all_reduce_max(exec, static_cast<const Real*>(values), reduced, rows);
        copy_back(exec, values, reduced, rows);
      };
      ranks.sum = [&](Real* values, std::int64_t rows) {
        fill(exec, reduced, rows);
        comm.all_reduce_sum(exec, static_cast<const Real*>(values), reduced, rows);
        copy_back(exec, values, reduced, rows);
      };
      try {
        run_naive<Real, Exec>(exec, naive_formula(loss), call, pass, workspace, &ranks);
      } catch (...) {
        poison_rows<Logit>(exec, loss, call, pass, plan);
        throw;
      }
    }
  }

 private:
  static void fill(const Exec& exec, Real* values, std::int64_t rows) {
    if constexpr (Comm::is_asynchronous) fill_with_nan(exec, values, rows);
  }
  static void copy_back(const Exec& exec, Real* to, const Real* from, std::int64_t rows) {
    using Memory = typename Exec::memory_space;
    Kokkos::deep_copy(exec, Kokkos::View<Real*, Memory, Kokkos::MemoryUnmanaged>(to, rows),
                      Kokkos::View<const Real*, Memory, Kokkos::MemoryUnmanaged>(from, rows));
  }
};

}  // namespace vocabloss::Impl

#endif
