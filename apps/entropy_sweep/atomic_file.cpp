// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace entropy_sweep {
namespace {

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw FileError(fmt::format("cannot {} '{}': {}", action, path, std::strerror(errno)));
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(path, error)) {
    const fs::path real = fs::canonical(path, error);
    if (!error) path_ = real.string();  // a rename would replace a link instead of what it points to
  }
  const bool direct = fs::exists(path_, error) && !fs::is_regular_file(path_, error);
  if (!direct) temporary_ = path_ + ".tmp";
  const std::string& target = direct ? path_ : temporary_;
  descriptor_ = open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(target, "create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  constexpr std::size_t largest = std::size_t{1} << 30;  // Linux writes less than 2 GiB a call
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, std::min(bytes, largest));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(temporary_.empty() ? path_ : temporary_, "write");
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  const int descriptor = descriptor_;
  descriptor_ = -1;
  // Some file systems report a full disk only here, so the rename waits for a clean close.
  const bool closed = close(descriptor) == 0;
  if (temporary_.empty()) {
    if (!closed) fail(path_, "close");
    return;
  }
  if (!closed || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int cause = errno;
    unlink(temporary_.c_str());
    errno = cause;
    fail(path_, closed ? "rename to" : "close");
  }
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace entropy_sweep
