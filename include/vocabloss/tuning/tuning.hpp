// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_TUNING_TUNING_HPP
#define VOCABLOSS_TUNING_TUNING_HPP

/// \file
/// \brief What goes into tune (tuning/tune.hpp) and what comes out of it, as plain data.

#include <vocabloss/tuning/plan.hpp>
#include <vocabloss/tuning/record.hpp>

#include <optional>
#include <string>
#include <vector>

namespace vocabloss {

struct TuneOptions {
  /// Asked first, and told what was found; null: always timed. Writing it to its file is the caller's.
  TuningRecord* record = nullptr;
  /// Between ranks: the only exchange to try; none: all, and path `gather`.
  std::optional<Exchange> exchange{};
  /// Timed calls of a candidate, of which the median counts; in alternation with the other candidates.
  int repeats = 9;
  /// A candidate whose second call takes more than this times the fastest one's is not timed further.
  double too_slow = 3;
  /// What is not chosen here: `block_rows`, `memory_limit`, `time_limit`. Its other fields are not looked at.
  PlanRequest base{};
};

/// One that was tried, or would have been.
struct TunedCandidate {
  PlanRequest request{};
  std::string plan{};  ///< as it prints itself; of one that was refused, the request in words
  std::optional<TunedTime> time{};
  int calls = 0;         ///< timed; 1 for one that was too slow to be timed further
  std::string reason{};  ///< why it was not timed, or not further; empty for the others
};

struct Tuning {
  PlanRequest request{};  ///< for the Plan
  std::string plan{};     ///< as it prints itself
  TunedTime time{};
  bool from_record = false;                  ///< nothing was timed
  std::vector<TunedCandidate> candidates{};  ///< empty if from the record
};

}  // namespace vocabloss

#endif
