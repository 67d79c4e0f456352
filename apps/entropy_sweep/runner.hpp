// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_RUNNER_HPP
#define ENTROPY_SWEEP_RUNNER_HPP

/// \file
/// Runs cases one by one: memory, measurement, check, dump; whatever goes wrong in a case becomes its status, the same
/// on all ranks.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dump.hpp"
#include "input.hpp"
#include "options.hpp"
#include "oracle.hpp"
#include "problem.hpp"
#include "report.hpp"

namespace entropy_sweep {

class Runner {
 public:
  /// `input`, `dump` and `record` may be null (the last two are on other ranks than the first); all must outlive the
  /// runner.
  Runner(const Options& options, const Sharing& sharing, const InputData* input, Dump* dump,
         vocabloss::TuningRecord* record = nullptr);

  /// Never throws: errors are statuses. Collective. Errors of a check are known to the first rank alone.
  Result run(const Case& one);

 private:
  void run_or_throw(const Case& one, Result& result);
  void expect_possible(const Case& one) const;
  void use_problem_of(const Case& one);
  void expect_memory(const Case& one) const;
  bool tunes(const Case& one) const { return !options_.tune.empty() && one.path == Path::automatic; }
  void keep_choice(const Case& one, const Measured& measured) const;
  Measured run_reference(const Case& one, const std::vector<std::int64_t>& checked);
  void check(const Case& one, const Measured& measured, Result& result);
  void add_to_dump(const Case& one, const Measured& measured);
  const std::vector<OracleRow>& oracle(const Case& one);
  std::vector<std::int64_t> all_rows() const;
  std::int64_t columns_of(const Case& one, int rank) const;

  const Options& options_;
  Sharing sharing_;
  const Ranks& ranks_;
  const InputData* input_;
  Dump* dump_;
  Measurement measurement_{};
  ProblemSpec spec_{};
  std::unique_ptr<Problem> problem_{};
  /// Of the checked rows; kept while the next case has the same problem and loss.
  std::optional<Loss> oracle_loss_{};
  std::vector<OracleRow> oracle_rows_{};
};

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_RUNNER_HPP
