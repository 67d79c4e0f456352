// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_PROBLEM_HPP
#define ENTROPY_SWEEP_PROBLEM_HPP

/// \file
/// One problem (size, type, data) without its type in the type: what the runner asks of it. Each value type over each
/// communicator is a source of its own (problem_instance.cpp.in), so that they are compiled in parallel.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <vocabloss/comm/partition.hpp>

#include "cases.hpp"
#include "communicators.hpp"
#include "input.hpp"
#include "ranks.hpp"
#include "report.hpp"

namespace vocabloss {
class TuningRecord;
}

namespace entropy_sweep {

/// What decides the data: cases with equal specs share them.
struct ProblemSpec {
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  ValueType type = ValueType::bf16;
  std::uint64_t seed = 0;
  Data data = Data::normal;               ///< without an input
  const InputData* input = nullptr;       ///< null: synthetic
  vocabloss::VocabPartition partition{};  ///< the columns of this rank

  bool operator==(const ProblemSpec&) const = default;
};

/// Who shares a problem's vocabulary, and what they talk through; both outlive the problem.
struct Sharing {
  const Ranks* ranks = nullptr;
  Communicators* communicators = nullptr;
};

/// One label a row: the file's or synthetic ones.
std::vector<std::int64_t> labels_of(const ProblemSpec& spec);

/// How a case is to be measured, and which of its values are wanted.
struct Measurement {
  int repeat = 1;
  double logit_scale = 1;
  double teacher_scale = 1;
  double temperature = 1;
  double jsd_beta = 0.5;
  std::int64_t ignore_index = -100;
  int back_to_back = 1;                       ///< calls in a row of which a time is the mean
  bool graph = false;                         ///< calls are launches of a captured graph
  bool tune = false;                          ///< path auto is the fastest by measurement
  vocabloss::TuningRecord* record = nullptr;  ///< of measured choices; null on other ranks than the first
  std::int64_t memory_limit = 0;              ///< bytes for path gather; 0: what is left
  bool want_losses = false;
  std::vector<std::int64_t> gradient_rows{};  ///< rows whose gradient is wanted
};

/// What a run gives back; fields as in Result.
struct Measured {
  std::string plan{};
  std::vector<std::string> tuned{};  ///< what was measured to choose the plan, a line each; empty: nothing was
  std::optional<std::int64_t> block_cap{};
  std::optional<Milliseconds> ms{};
  std::optional<double> share_of_stream{};
  std::optional<std::int64_t> peak_extra_bytes{};
  std::vector<std::vector<double>> losses{};     ///< of each output, all rows
  std::vector<std::vector<double>> gradients{};  ///< of the wanted rows, this rank's columns
};

class Problem {
 public:
  virtual ~Problem() = default;

  /// Runs a case of this problem: values first, then times. Throws what the library and Kokkos throw, on all ranks or
  /// on none. Collective.
  virtual Measured run(const Case& one, const Measurement& measurement) = 0;

  /// This rank's columns of a row of logits, and of the teacher as `one` stores it (empty without a teacher), exactly
  /// as the case reads them.
  virtual std::vector<double> logits_row(std::int64_t i) = 0;
  virtual std::vector<double> teacher_row(const Case& one, std::int64_t i) = 0;
};

/// Writes a record of measured choices. \throws vocabloss::TuningRecordError
void write_record(const vocabloss::TuningRecord& record, const std::string& file);

/// Whether streams lie in host memory.
bool data_on_host();

/// Makes the problem of `spec.type` over `comm`. Allocates nothing yet.
/// \throws vocabloss::BackendMissing
std::unique_ptr<Problem> make_problem(const ProblemSpec& spec, Comm comm, const Sharing& sharing);

/// Defined in typed_problem.hpp, instantiated in problem_instance.cpp.in.
template <class Logit, class Communicator>
std::unique_ptr<Problem> make_typed_problem(const ProblemSpec& spec, const Sharing& sharing);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_PROBLEM_HPP
