// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PATH_LIST_HPP
#define VOCABLOSS_IMPL_PATH_LIST_HPP

/// \file
/// \brief The one list of paths that plan, selector, tuner and `--path` share, and the one switch over it.
///
/// A path is a class template over <Loss, Logit, Exec>, with Loss an algebra over Real, and four static functions:
///   refusal(problem, plan)          empty where it can run the problem, else why not and what to do instead
///   choose(problem, request)        its launch choices
///   workspace_bytes(problem, plan)  device memory it needs beside the call's own
///   run(exec, loss, call, pass, plan, workspace)   enqueues on `exec`; allocates and waits for nothing
/// and, where the workspace must hold something before the first call, prepare(exec, problem, plan, workspace).

#include <vocabloss/error.hpp>
#include <vocabloss/impl/naive/naive_path.hpp>
#include <vocabloss/impl/portable/reference_path.hpp>
#include <vocabloss/impl/portable/team_path.hpp>
#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

// Defined for users of the target VocabLoss::cuda, whose archive holds these kernels.
#if defined(VOCABLOSS_WITH_CUDA_PATHS) && defined(__CUDACC__)
#include <vocabloss/impl/cuda/cluster_path.cuh>
#include <vocabloss/impl/cuda/split_path.cuh>
#endif

namespace vocabloss::Impl {

/// A path that this build does not hold.
template <Path path>
struct AbsentPath {
  static std::string refusal(const Problem&, const LaunchPlan&) {
    return "path " + std::string(name_of(path)) +
           " runs on NVIDIA GPUs of compute capability 9.0 only: from Kokkos' CUDA execution space, linked with "
           "VocabLoss::cuda (built with VocabLoss_ENABLE_CUDA)";
  }
  static LaunchPlan choose(const Problem&, const PlanRequest&) { return {.path = path, .variant = {}, .reason = {}}; }
  static std::size_t workspace_bytes(const Problem&, const LaunchPlan&) { return 0; }
  template <class... Arguments>
  static void run(const Arguments&...) {
    throw PathRefused("vocabloss: path " + std::string(name_of(path)) + " is absent from this build");
  }
};

/// A path between ranks: impl/distributed/rank_plan.hpp runs it, not the switch below.
template <>
inline std::string AbsentPath<Path::gather>::refusal(const Problem&, const LaunchPlan&) {
  return "path gather gathers the logits of several ranks: make the plan with a communicator of more than one rank";
}

/// Paths `cluster` and `split` of an execution space.
template <class Loss, class Logit, class Exec>
struct CudaPaths {
  using Cluster = AbsentPath<Path::cluster>;
  using Split = AbsentPath<Path::split>;
};
#if defined(VOCABLOSS_WITH_CUDA_PATHS) && defined(__CUDACC__)
template <class Loss, class Logit>
struct CudaPaths<Loss, Logit, Kokkos::Cuda> {
  using Cluster = ClusterPath<Loss, Logit>;
  using Split = SplitPath<Loss, Logit>;
};
#endif

/// Calls `visitor` with the path's class as a type tag.
template <class Loss, class Logit, class Exec, class Visitor>
decltype(auto) visit_path(Path path, Visitor&& visitor) {
  switch (path) {
    case Path::reference:
      return visitor(std::type_identity<ReferencePath<Loss, Logit, Exec>>{});
    case Path::naive:
      return visitor(std::type_identity<NaivePath<Loss, Logit, Exec>>{});
    case Path::cluster:
      return visitor(std::type_identity<typename CudaPaths<Loss, Logit, Exec>::Cluster>{});
    case Path::split:
      return visitor(std::type_identity<typename CudaPaths<Loss, Logit, Exec>::Split>{});
    case Path::gather:
      return visitor(std::type_identity<AbsentPath<Path::gather>>{});
    case Path::team:
    case Path::automatic:
      break;
  }
  return visitor(std::type_identity<TeamPath<Loss, Logit, Exec>>{});
}

/// Which path `auto` tries, best first. Few long rows leave most of a GPU idle where a row stays in one cluster.
/// Evidence (NVIDIA H200, 2026-11-28, bf16, forward + backward, vocabulary 131072; us, split against cluster):
///   reverse KL     1 row 14.6 / 15.1, 8 rows 13.3 / 13.0, 64 rows 31.1 / 27.5
///   cross-entropy  1 row 12.8 / 15.0, 8 rows 10.8 / 13.2, 64 rows 21.3 / 20.4
/// and at 32768 columns
///   reverse KL     1 row 13.8 / 16.5, 8 rows 10.8 / 15.0, 64 rows 16.0 / 15.3
///   cross-entropy  1 row 12.1 / 14.3, 8 rows  9.4 / 12.9, 64 rows 11.9 / 13.0
constexpr std::array<Path, 3> automatic_order(const Problem& problem) {
  const bool is_long = problem.partition.columns >= 65536;
  const std::int64_t few_rows = is_long ? 32 : problem.teacher ? 8 : 64;
  if (problem.rows <= few_rows && problem.partition.columns >= 32768) return {Path::split, Path::cluster, Path::team};
  return {Path::cluster, Path::split, Path::team};
}

}  // namespace vocabloss::Impl

#endif
