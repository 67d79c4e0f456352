// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_ROW_REPORT_CUH
#define VOCABLOSS_ROW_REPORT_CUH

/// \file
/// \brief What a check program prints.

#include <map>
#include <string>

#include "row_runner.cuh"

namespace row_check {

/// Counts, and the first failure of each loss, type and kind of row, in words.
class Report {
 public:
  int checked = 0, failed = 0;

  void add(const RowLoss& loss, const RowProblem& problem, const Layout& layout, DataType gradient_type,
           const std::string& launch, const std::string& wrong) {
    ++checked;
    if (wrong.empty()) return;
    ++failed;
    const std::string kind = wrong.substr(0, wrong.find(')'));  // "row 3 (ties"
    const std::string key =
        std::string(loss.name) + name_of(problem.type) + kind.substr(std::min(kind.find('('), kind.size()));
    if (++told_[key] > 1) return;
    std::printf("FAILED %s %s %lld x %lld (teacher %s, gradient %s), %s%s, %s: %s\n", loss.name, name_of(problem.type),
                static_cast<long long>(problem.rows), static_cast<long long>(problem.columns),
                name_of(problem.teacher_type), name_of(gradient_type), layout.name,
                problem.modifiers ? ", modifiers" : "", launch.c_str(), wrong.c_str());
    std::fflush(stdout);
  }
  int close(const std::string& what) const {
    std::printf("%s: %d cases, %d failed: %s\n", what.c_str(), checked, failed, failed ? "FAILED" : "all well");
    return failed ? 1 : 0;
  }

 private:
  std::map<std::string, int> told_;
};

}  // namespace row_check

#endif
