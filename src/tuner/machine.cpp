// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include <vocabloss/tuning/record.hpp>

#include <cxxabi.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace vocabloss::Impl {

std::string processor(int threads) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string name = "unknown processor";
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) != 0 || colon == std::string::npos) continue;
    name = line.substr(colon + 2);
    break;
  }
  return name + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result;
}

}  // namespace vocabloss::Impl
