// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef PERF_TESTS_HARNESS_RUN_OPTIONS_HPP
#define PERF_TESTS_HARNESS_RUN_OPTIONS_HPP

/// \file
/// \brief What a perf test is asked to do, beside Google Benchmark's own options.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace perf {

struct RunOptions {
  bool full = false;        ///< sizes that mean something; else sizes that pass quickly
  bool check_only = false;  ///< correctness, no timing
  int alternations = 9;

  /// Rows for rows of so many columns.
  std::int64_t rows(std::int64_t columns, bool on_device) const {
    if (!full) return 16;
    if (on_device) return 4096;
    const std::int64_t rows = (std::int64_t(1) << 23) / columns;  // 256 x 32768
    return rows < 16 ? 16 : rows;
  }
};

inline constexpr const char* run_options_help =
    "  --full            sizes for measuring (also VOCABLOSS_PERF_FULL=1); default: sizes that pass in seconds\n"
    "  --check           check every case against the reference, time nothing\n"
    "  --alternations=N  turns of (call, streaming kernels) a case; default 9, 21 with --full\n";

/// Takes our options out of argv; what is left is Google Benchmark's.
inline RunOptions parse_run_options(int& argc, char** argv) {
  RunOptions options;
  const char* variable = std::getenv("VOCABLOSS_PERF_FULL");
  options.full = variable && std::string_view(variable) == "1";
  int alternations = 0;
  int kept = 1;
  for (int k = 1; k < argc; ++k) {
    const std::string_view argument = argv[k];
    constexpr std::string_view prefix = "--alternations=";
    if (argument == "--full") {
      options.full = true;
    } else if (argument == "--check") {
      options.check_only = true;
    } else if (argument.substr(0, prefix.size()) == prefix) {
      alternations = std::atoi(argument.substr(prefix.size()).data());
      if (alternations < 1) {
        std::fprintf(stderr, "--alternations needs a number from 1 on, got '%s'\n", argv[k]);
        std::exit(2);
      }
    } else {
      if (argument == "--help") std::printf("options of this perf test:\n%s\n", run_options_help);
      argv[kept++] = argv[k];
    }
  }
  argc = kept;
  options.alternations = alternations > 0 ? alternations : options.full ? 21 : 9;
  return options;
}

}  // namespace perf

#endif
