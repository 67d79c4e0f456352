// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "context.hpp"

#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <istream>

namespace entropy_sweep {

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text, length};
}

std::string processor_name(std::istream& cpuinfo) {
  // x86 writes "model name", Power "cpu"; Arm writes neither, only numbers.
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string key = line.substr(0, colon);
    key.erase(key.find_last_not_of(" \t") + 1);
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    if ((key == "model name" || key == "cpu") && begin != std::string::npos) return line.substr(begin);
  }
  return "unknown processor";
}

std::string host_card(int threads) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  return fmt::format("{}, {} thread{}", processor_name(cpuinfo), threads, threads == 1 ? "" : "s");
}

}  // namespace entropy_sweep
