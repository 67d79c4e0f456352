// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_ROW_PROGRAM_CUH
#define VOCABLOSS_ROW_PROGRAM_CUH

/// \file
/// \brief The main loop of the checks of the CUDA paths: every loss, type, problem and layout, on whatever launches a
/// path offers.

#include <chrono>

#include "row_report.cuh"

namespace row_check {

struct Types {
  DataType logits, teacher, gradient;
};

/// A Path says which `types()` it takes, which `problems` of its own it adds, and what launches it offers for a
/// problem: run<Loss>(facts, problem, check) calls check(words, launch) for each. `finish` says what is wrong in the
/// end.
template <class Path>
class RowProgram {
 public:
  RowProgram(std::string only, bool is_short) : only_(std::move(only)), is_short_(is_short) {}

  int check_all(const char* name) {
    const auto begin = std::chrono::steady_clock::now();
    for (const Types& types : Path::types()) {
      if (is_short_ && types.logits == DataType::fp16) continue;
      std::vector<RowProblem> problems = row_problems(types.logits, types.teacher, is_short_);
      if (!is_short_) {
        for (RowProblem& own : path_.problems(types.logits, types.teacher)) problems.push_back(std::move(own));
      }
      for (RowProblem& problem : problems) {
        problem.make();
        for_each_loss([&]<template <class> class Loss>(const RowLoss& loss) { check<Loss>(loss, problem, types); });
        problem = {};
      }
    }
    for (const auto& [loss, worst] : worst_) {
      std::printf("%-37s at worst %.2f of the loss limit, %.2f of the gradient limit", loss.c_str(), worst.loss,
                  worst.gradient);
      std::printf(worst.beyond > 0 ? " (%.2g s p_j)\n" : "\n", worst.beyond);
    }
    const std::string wrong = path_.finish();
    if (!wrong.empty()) ++report_.failed, std::printf("FAILED: %s\n", wrong.c_str());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("%.1f s\n", seconds.count());
    return report_.close(name);
  }

 private:
  template <template <class> class Loss>
  void check(const RowLoss& loss, const RowProblem& problem, const Types& types) {
    const std::string name = loss.name;
    // Of mixed types, what their conversion depends on: short rows, and all remainders of a vector.
    const std::int64_t elements = problem.rows * problem.columns;
    if ((types.teacher != types.logits || types.gradient != types.logits) && elements > 100000) return;
    if (!only_.empty() && only_ != name) return;
    if (is_short_ && name != "reverse_kl" && name != "jsd" && name != "log_prob_entropy") return;
    const std::vector<ExpectedRow> expected = expected_rows(loss, problem);
    // A long problem in the layouts that differ most: the others are met by the shorter ones.
    const bool is_long = elements > 300000;
    runner_.worst = {};
    for (std::size_t k = 0; k < layouts.size(); ++k) {
      const Layout& layout = layouts[k];
      if (layout.in_place && types.gradient != types.logits) continue;
      if (is_long && (static_cast<std::int64_t>(k) + problem.columns) % 2 == 0) continue;
      if (is_short_ && k > 2) continue;
      path_.template run<Loss>(loss, problem, [&](const std::string& words, const Launch& launch) {
        const std::string wrong = runner_.check(loss, problem, expected, types.gradient, layout, launch);
        report_.add(loss, problem, layout, types.gradient, words, wrong);
      });
    }
    worst_[name + " " + name_of(types.logits)].take(runner_.worst);
  }

  std::string only_;
  bool is_short_;
  Path path_;
  RowRunner runner_;
  Report report_;
  std::map<std::string, Worst> worst_;
};

template <class Path>
int check_program(const char* name, int argc, char** argv) {
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);
  bool is_short = false;
  std::string only;
  for (int k = 1; k < argc; ++k) {
    if (std::strcmp(argv[k], "--short") == 0) {
      is_short = true;
    } else {
      only = argv[k];
    }
  }
  return RowProgram<Path>(only, is_short).check_all(name);
}

}  // namespace row_check

#endif
