// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_SIDE_STREAM_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_SIDE_STREAM_HPP

/// \file
/// \brief A second CUDA stream for exchanges, so that they run beside the kernels of other rows; elsewhere nothing.
///
/// Order between the two is kept by events, which a graph capture follows; the caller's instance has waited for the
/// side stream at the end of each call. No device-wide synchronisation.

#include <Kokkos_Core.hpp>
#if defined(KOKKOS_ENABLE_CUDA)
#include <vocabloss/impl/expect_cuda.cuh>
#endif

#include <cstddef>
#include <memory>
#include <vector>

namespace vocabloss::Impl {

/// Reals become NaN: what an exchange does not reach must not look like a number.
template <class Exec, class Real>
void fill_with_nan(const Exec& exec, Real* values, std::size_t count) {
  const Kokkos::View<Real*, typename Exec::memory_space, Kokkos::MemoryUnmanaged> all(values, count);
  Kokkos::deep_copy(exec, all, static_cast<Real>(__builtin_nanf("")));
}

/// Everything stays on the caller's instance.
template <class Exec>
class SideStream {
 public:
  static constexpr bool exists = false;
  explicit SideStream(int /*slots*/) {}

  /// Runs `exchange(where)`, with `where` an instance that follows what `exec` was given so far.
  template <class Exchange>
  void run(const Exec& exec, int /*slot*/, Exchange&& exchange) const {
    exchange(exec);
  }
  /// `exec` goes on when the last exchange of the slot is there.
  void join(const Exec&, int /*slot*/) const {}
};

#if defined(KOKKOS_ENABLE_CUDA)

/// What an exchange needs of an execution-space instance.
struct CudaStream {
  cudaStream_t stream;
  cudaStream_t cuda_stream() const { return stream; }
};

template <class Real>
void fill_with_nan(const CudaStream& where, Real* values, std::size_t count) {
  // All bits set is a NaN in both formats.
  expect_cuda(cudaMemsetAsync(values, 0xff, count * sizeof(Real), where.stream), "cudaMemsetAsync");
}

template <>
class SideStream<Kokkos::Cuda> {
 public:
  static constexpr bool exists = true;

  explicit SideStream(int slots) : stream_(make_stream()), ready_(make_event()) {
    for (int slot = 0; slot < slots; ++slot) done_.push_back(make_event());
  }

  template <class Exchange>
  void run(const Kokkos::Cuda& exec, int slot, Exchange&& exchange) const {
    expect_cuda(cudaEventRecord(ready_.get(), exec.cuda_stream()), "cudaEventRecord");
    expect_cuda(cudaStreamWaitEvent(stream_.get(), ready_.get(), 0), "cudaStreamWaitEvent");
    exchange(CudaStream{stream_.get()});
    expect_cuda(cudaEventRecord(done_[slot].get(), stream_.get()), "cudaEventRecord");
  }
  void join(const Kokkos::Cuda& exec, int slot) const {
    expect_cuda(cudaStreamWaitEvent(exec.cuda_stream(), done_[slot].get(), 0), "cudaStreamWaitEvent");
  }

 private:
  struct DestroyStream {
    void operator()(CUstream_st* stream) const { cudaStreamDestroy(stream); }
  };
  struct DestroyEvent {
    void operator()(CUevent_st* event) const { cudaEventDestroy(event); }
  };
  using Stream = std::unique_ptr<CUstream_st, DestroyStream>;
  using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

  /// The highest priority: an exchange is one small kernel, and must not queue behind the teams of a large one.
  static Stream make_stream() {
    int lowest = 0;
    int highest = 0;
    expect_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t stream = nullptr;
    expect_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
    return Stream(stream);
  }
  static Event make_event() {
    cudaEvent_t event = nullptr;
    expect_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return Event(event);
  }

  Stream stream_;
  Event ready_;
  std::vector<Event> done_;
};

#endif

}  // namespace vocabloss::Impl

#endif
