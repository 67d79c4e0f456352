// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_REPORT_HPP
#define ENTROPY_SWEEP_REPORT_HPP

/// \file
/// What a run found: one Result a case, the Context they share, the JSON and CSV files and the exit code.
/// Read next: table.hpp, the same for a person.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cases.hpp"

namespace entropy_sweep {

/// Where, with what and how the numbers were taken. No host or user name, so that results can be shown to anyone.
struct Context {
  std::string card{};       ///< accelerator, or processor and thread count
  std::string date{};       ///< ISO 8601, UTC
  std::string version{};    ///< of the library
  std::string git{};        ///< commit, with a mark when the tree was changed
  std::string driver{};     ///< of the accelerator; empty (null in files) on a host
  std::string execution{};  ///< Kokkos execution space
  int back_to_back = 1;     ///< calls of which a time is the mean
  bool graph = false;       ///< whether the calls were launches of a CUDA graph
};

/// Times of the timed calls of a case; over ranks, of the slowest one.
struct Milliseconds {
  double median = 0;
  double min = 0;
  double max = 0;
};

/// One case and what came of it. Empty: not measured, or not asked for.
struct Result {
  Case point{};
  std::int64_t columns = 0;  ///< of the largest shard
  int ranks = 1;
  std::string plan{};                       ///< the launch choices as the plan prints them
  std::optional<std::int64_t> block_cap{};  ///< used: the case's or the plan's own; empty outside path team
  std::string input{};                      ///< file names, or "synthetic:peaked"; empty: synthetic normal data
  std::optional<Milliseconds> ms{};
  std::optional<double> share_of_stream{};
  std::optional<std::int64_t> peak_extra_bytes{};
  std::optional<double> loss_error{};
  std::optional<double> grad_error{};
  std::string status = "ok";  ///< ok, or "failed: ...", "refused: ...", "oom: ..."

  std::int64_t bytes() const { return bytes_of(point); }
  /// Decimal gigabytes a second at the median; empty when nothing was timed or moved.
  std::optional<double> gb_per_s() const;
};

enum class Outcome { ok, failed, refused, oom };

/// The kind of a status, from the word before its colon. An unknown word counts as failed: a result that nobody can
/// classify must not pass.
Outcome outcome_of(const Result& result);

/// 1 if a case failed; else 3 if one was refused or out of memory; else 0.
int exit_code_of(const std::vector<Result>& results);

/// The JSON text. NaN and infinity become null.
std::string to_json(const Context& context, const std::vector<Result>& results);

/// The CSV text: a header, then one line a result with every JSON field (and the context in the last columns).
/// An empty cell stands for null.
std::string to_csv(const Context& context, const std::vector<Result>& results);

/// Writes a text whole or not at all; throws FileError.
void write_json(const std::string& path, const Context& context, const std::vector<Result>& results);
void write_csv(const std::string& path, const Context& context, const std::vector<Result>& results);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_REPORT_HPP
