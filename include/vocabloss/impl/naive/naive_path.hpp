// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_NAIVE_NAIVE_PATH_HPP
#define VOCABLOSS_IMPL_NAIVE_NAIVE_PATH_HPP

/// \file
/// \brief Path `naive`: the loss as a user without this library would write it, the comparator of every other path.
///
/// Half types are converted to float matrices first; softmax, log-softmax and every product of the two are
/// [rows, columns] matrices in the workspace; each kernel computes one quantity; row sums and scalings are Kokkos
/// Kernels' BLAS. The kernels are compiled into the library (src/portable/naive_*.cpp), which keeps Kokkos Kernels out
/// of every header: this one only declares.

#include <vocabloss/error.hpp>
#include <vocabloss/impl/naive/naive_formula.hpp>
#include <vocabloss/impl/naive/naive_ranks.hpp>
#include <vocabloss/impl/naive/naive_workspace.hpp>
#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>

#include <cstddef>
#include <string>
#include <type_traits>

namespace vocabloss::Impl {

/// The execution spaces for which src/portable/naive_float.cpp and naive_double.cpp hold the kernels.
template <class Exec>
inline constexpr bool naive_is_compiled_for = false
#if defined(KOKKOS_ENABLE_SERIAL)
                                              || std::is_same_v<Exec, Kokkos::Serial>
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
                                              || std::is_same_v<Exec, Kokkos::OpenMP>
#endif
#if defined(KOKKOS_ENABLE_CUDA)
                                              || std::is_same_v<Exec, Kokkos::Cuda>
#endif
    ;

/// Enqueues all kernels on `exec`. Backward evaluates everything anew from the logits, with its reductions over `ranks`
/// (null: one rank).
template <class Real, class Exec>
void run_naive(const Exec& exec, const NaiveFormula<Real>& formula, const RowCall<Real>& call, Pass pass,
               void* workspace, const NaiveRanks<Real>* ranks);

template <class Loss, class Logit, class Exec>
struct NaivePath {
  using Real = typename Loss::Real;
  static constexpr bool has_formula = naive_loss_of<Loss> != NaiveLoss::none;

  static std::string refusal(const Problem& problem, const LaunchPlan&) {
    if (!has_formula) {
      return "path naive knows the shipped losses only, each written out by hand: use path team for a loss of your own";
    }
    if (!naive_is_compiled_for<Exec>) {
      return std::string("path naive is compiled for Serial, OpenMP and Cuda only, not for ") + Exec::name() +
             ": use path team";
    }
    if (!problem.partition.is_whole()) {
      return "path naive needs the whole vocabulary on one rank: use path team, or gather the logits";
    }
    return "";
  }

  static LaunchPlan choose(const Problem&, const PlanRequest&) {
    LaunchPlan plan;
    plan.path = Path::naive;
    return plan;
  }

  static std::size_t workspace_bytes(const Problem& problem, const LaunchPlan&) {
    return NaiveWorkspace<Real>::bytes(naive_loss_of<Loss>, problem.rows, static_cast<int>(problem.partition.columns));
  }

  static void run(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, const LaunchPlan&,
                  void* workspace) {
    if constexpr (has_formula && naive_is_compiled_for<Exec>) {
      Kokkos::Profiling::ScopedRegion region("VocabLoss::naive::" + std::string(name_of(pass)));
      if (pass != Pass::backward) forget_statistics(exec, call);
      run_naive<Real, Exec>(exec, naive_formula(loss), call, pass, workspace, nullptr);
    } else {
      throw PathRefused("vocabloss: path naive cannot run this loss on this execution space");
    }
  }

  /// Naive keeps no statistics. NaN instead of what was there: a backward of another path must not read a stale value.
  static void forget_statistics(const Exec& exec, const RowCall<Real>& call) {
    if (!call.statistics || call.rows == 0) return;
    constexpr std::int64_t each = sizeof(typename Loss::Statistics) / sizeof(Real);
    const Kokkos::View<Real*, typename Exec::memory_space, Kokkos::MemoryUnmanaged> all(call.statistics,
                                                                                        call.rows * each);
    Kokkos::deep_copy(exec, all, loss::not_a_number<Real>());
  }
};

}  // namespace vocabloss::Impl

#endif
