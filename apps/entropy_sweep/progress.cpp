// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

namespace entropy_sweep {

Progress::Progress(std::FILE* stream, std::size_t total, bool wanted)
    : stream_(stream), total_(total), active_(wanted && total > 1 && isatty(fileno(stream)) == 1) {}

Progress::~Progress() { clear(); }

void Progress::start(const std::string& what) {
  ++started_;
  if (!active_) return;
  clear();
  std::fputs(progress_line(started_, total_, what).c_str(), stream_);
  std::fflush(stream_);
}

void Progress::clear() {
  if (!active_) return;
  std::fputs("\r\033[K", stream_);  // to the line's start, then erase to its end
  std::fflush(stream_);
}

std::string progress_line(std::size_t index, std::size_t total, const std::string& what, std::size_t width) {
  const std::string count = fmt::format("{}", total);
  return fmt::format("[{:>{}}/{}] {}", index, count.size(), count, what).substr(0, width);
}

}  // namespace entropy_sweep
