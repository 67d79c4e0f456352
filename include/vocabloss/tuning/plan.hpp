// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_TUNING_PLAN_HPP
#define VOCABLOSS_TUNING_PLAN_HPP

/// \file
/// \brief The launch choices as plain data: comparable, printable, free of any device.

#include <vocabloss/comm/partition.hpp>
#include <vocabloss/tuning/cluster_shape.hpp>
#include <vocabloss/types.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vocabloss {

/// Which family of kernels runs. DESIGN of each: impl/.
enum class Path : int { automatic, reference, naive, team, cluster, split, gather };

/// One call does one of these.
enum class Pass : int { forward, backward, forward_backward };

/// How ranks that share a vocabulary merge the partial states of a row. DESIGN of each: impl/distributed/.
enum class Exchange : int { allgather, two_allreduce, in_kernel };

inline constexpr std::array<Path, 6> all_paths = {Path::reference, Path::naive, Path::team,
                                                  Path::cluster,   Path::split, Path::gather};

/// "auto", "reference", "naive", "team", "cluster", "split" or "gather".
constexpr std::string_view name_of(Path path) {
  switch (path) {
    case Path::automatic:
      return "auto";
    case Path::reference:
      return "reference";
    case Path::naive:
      return "naive";
    case Path::team:
      return "team";
    case Path::cluster:
      return "cluster";
    case Path::split:
      return "split";
    case Path::gather:
      return "gather";
  }
  return "?";
}

constexpr std::string_view name_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::allgather:
      return "allgather";
    case Exchange::two_allreduce:
      return "two_allreduce";
    case Exchange::in_kernel:
      return "in_kernel";
  }
  return "?";
}

constexpr std::string_view name_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return "forward";
    case Pass::backward:
      return "backward";
    case Pass::forward_backward:
      return "forward_backward";
  }
  return "?";
}

/// What a caller wants to do, as far as the choice of a launch depends on it.
struct Problem {
  std::int64_t rows = 0;
  VocabPartition partition;
  DataType logits = DataType::fp32;
  std::optional<DataType> teacher;   ///< none: one stream
  std::optional<DataType> gradient;  ///< none: forward only
  bool accumulate = false;           ///< the gradient is added to its buffer
  bool in_place = false;             ///< the gradient overwrites the logits

  bool operator==(const Problem&) const = default;
};

/// What a caller may ask for; all else is chosen.
struct PlanRequest {
  Path path = Path::automatic;
  /// `team`: the most columns a team holds at once; 0: chosen.
  int block_cap = 0;
  /// Between ranks; one rank alone exchanges nothing. Path `gather` exchanges logits instead and ignores it.
  Exchange exchange = Exchange::allgather;
  /// Between ranks: rows whose states are exchanged together; 0: chosen. With path team's stages a block is so short
  /// that its second read hits the cache; with path cluster's there is one block.
  std::int64_t block_rows = 0;
  /// The most bytes that path `gather` may allocate; 0: what the device has left.
  std::size_t memory_limit = 0;
  /// `cluster`: the kernel's shape as LaunchPlan::variant tells it; empty: chosen.
  std::string variant{};
  /// Exchange `in_kernel`: how long a kernel waits for the state of a row from another rank before all ranks give up.
  std::chrono::milliseconds time_limit{10000};
};

/// The choices made.
struct LaunchPlan {
  Path path = Path::team;
  int block_cap = 0;    ///< `team`: columns a team holds at once
  int team_size = 0;    ///< `team`: threads a row
  std::string variant;  ///< `cluster`, `split`: the kernel's shape, in words
  std::string reason;   ///< why this path and not a faster one; empty where it is the first choice
  int ranks = 1;
  std::optional<Exchange> exchange{};  ///< none: one rank, or path `gather`
  std::int64_t block_rows = 0;         ///< between ranks: rows exchanged together
  std::string communicator{};          ///< between ranks: the communicator in its own words
  ClusterShape cluster{};              ///< `cluster`: the kernel's shape, of which `variant` tells
  ClusterShape cluster_forward{};      ///< `cluster`: of a forward pass alone; a variant that was asked for is for both

  bool operator==(const LaunchPlan&) const = default;

  /// For results and logs: "team block_cap=8192 team_size=1024", say.
  std::string describe() const {
    std::string text(name_of(path));
    if (path == Path::team) {
      text += " block_cap=" + std::to_string(block_cap) + " team_size=" + std::to_string(team_size);
    }
    if (!variant.empty()) text += " " + variant;
    if (ranks > 1) {
      if (exchange) text += " exchange=" + std::string(name_of(*exchange));
      text += " block_rows=" + std::to_string(block_rows) + " over " + communicator;
    }
    return text;
  }
};

}  // namespace vocabloss

#endif
