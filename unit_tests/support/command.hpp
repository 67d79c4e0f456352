// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_UNIT_TESTS_SUPPORT_COMMAND_HPP
#define VOCABLOSS_UNIT_TESTS_SUPPORT_COMMAND_HPP

/// \file
/// A program as its user runs it: exit code and everything it says.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace test {

struct CommandOutcome {
  int code = -1;       ///< -1: it did not end by itself
  std::string text{};  ///< stdout and stderr

  int count(const std::string& what) const {
    int found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  }
};

inline CommandOutcome run_command(const std::string& command) {
  CommandOutcome outcome;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.text.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace test

#endif
