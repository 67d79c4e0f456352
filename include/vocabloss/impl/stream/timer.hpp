// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_STREAM_TIMER_HPP
#define VOCABLOSS_IMPL_STREAM_TIMER_HPP

/// \file
/// \brief How long enqueued work takes: device events on CUDA, a fenced steady clock elsewhere.

#include <vocabloss/impl/stream/stream_kernel.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

namespace vocabloss::Impl {

struct Spread {
  double median = 0, min = 0, max = 0;
};

/// Of at least one value; the median of an even number is the mean of the middle two.
inline Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

/// Times what a callable enqueues on the instance it was made with. `before` is enqueued first and not timed: on CUDA
/// it also hides the time that the host takes to launch what is timed.
template <class Exec>
class DeviceTimer {
 public:
  explicit DeviceTimer(const Exec& exec) : exec_(exec) {}

  template <class Before, class Work>
  double milliseconds(Before&& before, Work&& work) const {
    before();
    exec_.fence("VocabLoss::timer");
    const auto start = std::chrono::steady_clock::now();
    work();
    exec_.fence("VocabLoss::timer");
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  Exec exec_;
};

#if defined(KOKKOS_ENABLE_CUDA)
template <>
class DeviceTimer<Kokkos::Cuda> {
 public:
  explicit DeviceTimer(const Kokkos::Cuda& exec) : exec_(exec) {
    expect_cuda(cudaEventCreate(&start_), "cudaEventCreate");
    expect_cuda(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;
  ~DeviceTimer() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }

  template <class Before, class Work>
  double milliseconds(Before&& before, Work&& work) const {
    before();
    expect_cuda(cudaEventRecord(start_, exec_.cuda_stream()), "cudaEventRecord");
    work();
    expect_cuda(cudaEventRecord(stop_, exec_.cuda_stream()), "cudaEventRecord");
    expect_cuda(cudaEventSynchronize(stop_), "the timed work");
    float milliseconds = 0;
    expect_cuda(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  Kokkos::Cuda exec_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};
#endif

}  // namespace vocabloss::Impl

#endif
