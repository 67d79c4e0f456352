// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef PERF_TESTS_HARNESS_CONTEXT_HPP
#define PERF_TESTS_HARNESS_CONTEXT_HPP

/// \file
/// \brief Where and with what a measurement was made: goes into the head of the output and into the JSON's `context`.

#include "perf_case.hpp"
#include "run_options.hpp"

#include <vocabloss/version.hpp>

#include <benchmark/benchmark.h>

#include <fstream>
#include <string>

namespace perf {

/// "model name" of the first processor; empty where the system does not say.
inline std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

inline void add_context(const RunOptions& options, std::size_t flush_bytes) {
  const Exec exec;
  benchmark::AddCustomContext("vocabloss_version", vocabloss::version_string);
  benchmark::AddCustomContext("vocabloss_git", vocabloss::git_revision);
  benchmark::AddCustomContext("kokkos_version", std::to_string(KOKKOS_VERSION));
  benchmark::AddCustomContext("execution_space", Exec::name());
  benchmark::AddCustomContext("concurrency", std::to_string(exec.concurrency()));
  benchmark::AddCustomContext("processor", processor_name());
#if defined(KOKKOS_ENABLE_CUDA)
  int driver = 0;
  cudaDriverGetVersion(&driver);
  benchmark::AddCustomContext("card", exec.cuda_device_prop().name);
  benchmark::AddCustomContext("cuda_driver", std::to_string(driver));
  benchmark::AddCustomContext("cuda_toolkit", std::to_string(CUDART_VERSION));
#endif
  benchmark::AddCustomContext("sizes", options.full ? "full" : "smoke: the times mean nothing");
  benchmark::AddCustomContext("alternations", std::to_string(options.alternations));
  benchmark::AddCustomContext("flush_bytes", std::to_string(flush_bytes));
}

}  // namespace perf

#endif
