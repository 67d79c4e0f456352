// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "memory.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

namespace entropy_sweep {
namespace {

std::string contents_of(const char* path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The number in a control file; -1 where there is none ("max", no such file).
std::int64_t number_in(const char* path) {
  std::istringstream text(contents_of(path));
  std::int64_t value = -1;
  return text >> value ? value : -1;
}

}  // namespace

std::int64_t meminfo_bytes(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, name.size() + 1, name + ":") != 0) continue;
    std::istringstream rest(line.substr(name.size() + 1));
    std::int64_t kilobytes = -1;
    if (rest >> kilobytes) return kilobytes * 1024;
  }
  return -1;
}

std::int64_t available_host_memory() {
  std::int64_t available = std::numeric_limits<std::int64_t>::max();
  const std::int64_t free = meminfo_bytes(contents_of("/proc/meminfo"), "MemAvailable");
  if (free >= 0) available = free;
  // Containers and batch systems allow less than the machine has: the second version's files, then the first's. What
  // this process holds already counts against that limit.
  std::int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  if (limit < 0) limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  if (limit > 0) {
    const std::int64_t held = std::max<std::int64_t>(0, meminfo_bytes(contents_of("/proc/self/status"), "VmRSS"));
    available = std::min(available, std::max<std::int64_t>(0, limit - held));
  }
  return available;
}

}  // namespace entropy_sweep
