// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_COMM_NCCL_HPP
#define VOCABLOSS_COMM_NCCL_HPP

/// \file
/// \brief Ranks of an NCCL communicator, one GPU each (component nccl). Needs neither MPI nor Kokkos.
///
/// asynchrony   exchanges only enqueue on the instance's stream, and may be captured in a CUDA graph
/// errors       NCCL's asynchronous errors are polled before each exchange, by `check` and by `wait`; an instance that
///              makes no progress for the time limit counts as a lost rank. An owned communicator is then aborted,
///              which ends its kernels; a borrowed one is its owner's to abort
/// lifetime     destroy it while the CUDA context lives; graphs that captured its exchanges must not be launched later

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>

namespace vocabloss::comm {

struct NcclOptions {
  /// How long an exchange may take, counted from the last one enqueued, before its rank is given up.
  std::chrono::milliseconds time_limit{30000};
};

class Nccl {
 public:
  static constexpr bool is_asynchronous = true;

  /// Copies `count` bytes from rank 0 to the other ranks: MPI_Bcast, a file, a socket.
  using Broadcast = std::function<void(void* bytes, std::size_t count)>;

  /// A new communicator of `size` ranks on the current device of each; owned. Collective over the ranks.
  /// \throws CommunicationError
  static Nccl create(int rank, int size, const Broadcast& broadcast, const NcclOptions& options = {});
  /// Takes `comm` over and destroys it in the end.
  static Nccl adopt(ncclComm_t comm, const NcclOptions& options = {});
  /// Uses the caller's communicator, which must outlive this one.
  static Nccl borrow(ncclComm_t comm, const NcclOptions& options = {});

  int rank() const { return rank_; }
  int size() const { return size_; }

  template <class Exec, class Real>
  void all_gather(const Exec& exec, const Real* in, Real* out, std::size_t count) {
    gather(in, out, count, kind_of<Real>(), exec.cuda_stream());
  }
  template <class Exec, class Real>
  void all_reduce_max(const Exec& exec, const Real* in, Real* out, std::size_t count) {
    reduce(in, out, count, kind_of<Real>(), ncclMax, exec.cuda_stream());
  }
  template <class Exec, class Real>
  void all_reduce_sum(const Exec& exec, const Real* in, Real* out, std::size_t count) {
    reduce(in, out, count, kind_of<Real>(), ncclSum, exec.cuda_stream());
  }

  /// Does not wait. Asks NCCL, and the clock about the last exchange enqueued (not while a stream is being captured).
  std::string poll_error();
  void check();
  template <class Exec>
  void wait(const Exec& exec) {
    wait_for(exec.cuda_stream());
  }
  template <class Exec>
  std::string describe(const Exec&) const {
    return "nccl " + version() + ", " + std::to_string(size_) + " ranks";
  }

  static std::string version();

 private:
  enum class Owner { us, caller };

  /// Both handles are released once, wherever they were moved to.
  class Handle {
   public:
    Handle(ncclComm_t comm, Owner owner) : comm_(comm), owner_(owner) {}
    Handle(Handle&& other) noexcept : comm_(other.comm_), owner_(other.owner_) { other.comm_ = nullptr; }
    Handle& operator=(Handle&& other) noexcept;
    ~Handle();
    ncclComm_t get() const { return comm_; }
    /// Ends the communicator's kernels, if it is ours.
    void abort();

   private:
    ncclComm_t comm_;
    Owner owner_;
  };
  class Event {
   public:
    Event();
    Event(Event&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
    Event& operator=(Event&& other) noexcept;
    ~Event();
    cudaEvent_t get() const { return event_; }

   private:
    cudaEvent_t event_ = nullptr;
  };

  Nccl(Handle handle, const NcclOptions& options);

  template <class Real>
  static constexpr ncclDataType_t kind_of() {
    static_assert(std::is_same_v<Real, float> || std::is_same_v<Real, double>);
    return std::is_same_v<Real, float> ? ncclFloat32 : ncclFloat64;
  }

  void gather(const void* in, void* out, std::size_t count, ncclDataType_t type, cudaStream_t stream);
  void reduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
              cudaStream_t stream);
  void wait_for(cudaStream_t stream);
  /// Before an exchange: throws what went wrong so far.
  void begin(cudaStream_t stream);
  /// After an exchange: `code` is the call's own result.
  void end(ncclResult_t code, const char* call, cudaStream_t stream);
  void ask_library();
  void ask_clock();
  void fail(const std::string& what);

  Handle handle_;
  Event last_;  ///< recorded after the last exchange that was enqueued outside a capture
  bool is_pending_ = false;
  std::chrono::steady_clock::time_point enqueued_{};
  std::chrono::milliseconds time_limit_;
  int rank_ = 0;
  int size_ = 1;
  std::string error_;
};

}  // namespace vocabloss::comm

#endif
