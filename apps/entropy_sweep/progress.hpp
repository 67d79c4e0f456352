// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_PROGRESS_HPP
#define ENTROPY_SWEEP_PROGRESS_HPP

/// \file
/// One line that tells how far a long sweep is, overwritten in place; nothing when nobody watches.

#include <cstddef>
#include <cstdio>
#include <string>

namespace entropy_sweep {

class Progress {
 public:
  /// Shows something only if `wanted`, the stream is a terminal and there is more than one case.
  Progress(std::FILE* stream, std::size_t total, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool active() const { return active_; }
  /// Announces the case that starts now.
  void start(const std::string& what);
  /// Wipes the line, so that other text can be printed.
  void clear();

 private:
  std::FILE* stream_;
  std::size_t total_;
  std::size_t started_ = 0;
  bool active_;
};

/// "[ 3/24] what", cut to `width` characters: a longer line would wrap and could not be overwritten.
std::string progress_line(std::size_t index, std::size_t total, const std::string& what, std::size_t width = 79);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_PROGRESS_HPP
