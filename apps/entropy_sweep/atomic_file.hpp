// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_ATOMIC_FILE_HPP
#define ENTROPY_SWEEP_ATOMIC_FILE_HPP

/// \file
/// A file that appears whole or not at all: written beside its place as FILE.tmp, then renamed.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace entropy_sweep {

class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Write, then `commit`. Without a commit the destructor removes what was written and an older FILE stays as it was.
/// A destination that is no regular file (a device, a pipe) cannot be replaced by a rename and is written directly.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  std::string path_;       // where the contents end up, symbolic links followed
  std::string temporary_;  // where they are written; empty for a destination written directly
  int descriptor_ = -1;
};

/// The whole of `text` as file `path`.
void write_file(const std::string& path, std::string_view text);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_ATOMIC_FILE_HPP
