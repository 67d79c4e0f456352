// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "case_status.hpp"

#include <new>
#include <string_view>
#include <vocabloss/error.hpp>

namespace entropy_sweep {
namespace {

/// One line, without the library's own name in front: what a table can show.
std::string one_line(std::string_view message) {
  constexpr std::string_view prefix = "vocabloss: ";
  if (message.substr(0, prefix.size()) == prefix) message.remove_prefix(prefix.size());
  std::string line;
  for (const char c : message) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!blank) line += c;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string status_of_current_exception() {
  try {
    throw;
  } catch (const CaseEnded& ended) {
    return ended.what();
  } catch (const vocabloss::PathRefused& error) {
    return "refused: " + one_line(error.what());
  } catch (const vocabloss::OutOfMemory& error) {
    return "oom: " + one_line(error.what());
  } catch (const std::bad_alloc& error) {
    return "oom: " + one_line(error.what());
  } catch (const std::exception& error) {
    // Kokkos reports a View that it could not allocate as a plain runtime_error.
    const std::string line = one_line(error.what());
    const bool memory = line.find("ailed to allocate") != std::string::npos;
    return (memory ? "oom: " : "failed: ") + line;
  } catch (...) {
    return "failed: unknown exception";
  }
}

}  // namespace entropy_sweep
