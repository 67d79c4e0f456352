// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_OPTIONS_HPP
#define ENTROPY_SWEEP_OPTIONS_HPP

/// \file
/// The command line of entropy_sweep: what may be asked for, its defaults, and the checks made before anything runs.
/// Read next: cases.hpp, which turns the lists into the sweep.

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "names.hpp"

namespace entropy_sweep {

/// Exit codes of the program; `report.hpp` computes the last three.
inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_bad_input = 2;
inline constexpr int exit_refused = 3;

/// Everything the command line can say. Lists hold each value once, in the order given.
struct Options {
  // The sweep: its product is the list of cases.
  std::vector<Loss> losses{Loss::reverse_kl};
  std::vector<std::int64_t> vocabs{32768};
  std::vector<std::int64_t> rows{4096};
  std::vector<ValueType> types{ValueType::bf16};
  std::vector<Path> paths{Path::automatic};
  std::vector<std::int64_t> block_caps{};  ///< columns; empty: the plan chooses
  std::vector<Exchange> exchanges{Exchange::allgather};
  std::vector<std::string> variants{};  ///< shapes of path cluster, in the words of its plan; empty: the plan chooses

  // The problem.
  Pass pass = Pass::forward_backward;
  Comm comm = Comm::self;
  double temperature = 1;    ///< divides both scales
  double logit_scale = 1;    ///< s, before the temperature
  double teacher_scale = 1;  ///< u, before the temperature
  double jsd_beta = 0.5;     ///< in [0, 1]
  std::int64_t ignore_index = -100;
  std::uint64_t seed = 0;
  Data data = Data::normal;  ///< what synthetic data look like
  bool in_place = false;
  std::vector<std::string> inputs{};  ///< safetensors files; empty: synthetic data
  bool type_given = false;            ///< false with inputs: the type is the file's

  // The run and its outputs.
  int repeat = 20;
  int back_to_back = 1;
  bool graph = false;
  std::int64_t memory_limit = 0;  ///< bytes for path gather; 0: what is left
  bool check = false;
  bool quiet = false;
  std::string tune{};  ///< record of measured choices for path auto; empty: the plan chooses
  std::string json{};
  std::string csv{};
  std::string dump{};
  bool dump_grad = false;

  /// s / T and u / T: what the losses are given.
  double student_factor() const { return logit_scale / temperature; }
  double teacher_factor() const { return teacher_scale / temperature; }
};

/// What came of the command line: options to run with, or the code to exit with at once.
struct ParseOutcome {
  Options options{};
  std::optional<int> exit_code{};
};

/// Reads and checks the command line.
///
/// `argv` as `main` has it, program name first; arguments that start with `--kokkos-` belong to Kokkos and are passed
/// over. `version` is the text that `--version` prints. Help and version go to `out` (exit code 0), errors to `err`
/// (exit code 2); each error names the option, the value and what is allowed. Throws nothing for any command line.
ParseOutcome parse_options(int argc, const char* const* argv, const std::string& version, std::ostream& out,
                           std::ostream& err);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_OPTIONS_HPP
