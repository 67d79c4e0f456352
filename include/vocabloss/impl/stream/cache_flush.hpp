// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_STREAM_CACHE_FLUSH_HPP
#define VOCABLOSS_IMPL_STREAM_CACHE_FLUSH_HPP

/// \file
/// \brief Empties the last-level cache of what a timing must not find there.

#include <vocabloss/impl/stream/stream_kernel.hpp>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <unistd.h>
#endif

namespace vocabloss::Impl {

/// Bytes of the last-level cache that `exec` works through; 32 MiB where nobody says.
template <class Exec>
std::size_t last_level_cache_bytes(const Exec& exec) {
  constexpr std::size_t assumed = std::size_t(32) << 20;
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (streams_on_cuda<Exec>) return exec.cuda_device_prop().l2CacheSize;
#endif
  (void)exec;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (bytes > 0) return static_cast<std::size_t>(bytes);
#endif
  return assumed;
}

/// A buffer of twice the cache, read from end to end. Reading leaves clean lines, which cost the next kernel nothing to
/// evict; writing would leave dirty ones, whose eviction it would pay for.
template <class Exec>
class CacheFlush {
 public:
  explicit CacheFlush(const Exec& exec) : CacheFlush(exec, 2 * last_level_cache_bytes(exec)) {}

  /// `bytes` 0: nothing is flushed.
  CacheFlush(const Exec& exec, std::size_t bytes) : exec_(exec), buffer_("VocabLoss::flush", bytes / 16 * 16) {
    problem_.rows = 1;
    problem_.columns = static_cast<std::int64_t>(buffer_.size() / 4);
    problem_.add_read({buffer_.data(), DataType::fp32, problem_.columns});
  }

  void enqueue() const {
    if (problem_.columns > 0) stream(exec_, problem_, StreamVariant{});
  }

 private:
  Exec exec_;
  Kokkos::View<char*, typename Exec::memory_space> buffer_;
  StreamProblem problem_;
};

}  // namespace vocabloss::Impl

#endif
