// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_COMM_MPI_HPP
#define VOCABLOSS_COMM_MPI_HPP

/// \file
/// \brief Ranks of an MPI communicator (component mpi). The only header of the library that includes MPI's.
///
/// Device memory goes to MPI as it is where the MPI says that it takes it, and through pinned host memory otherwise:
/// asked once, when the communicator is made, and told by `describe`.
///
/// asynchrony   an exchange waits for the instance, then for the ranks. It refuses to be captured in a CUDA graph.
/// memory       staging grows to the largest exchange; no further allocation
/// errors       MPI's errors return instead of ending the program, and are thrown as CommunicationError
/// lifetime     destroy it before MPI_Finalize (afterwards the handle is left alone) and before Kokkos::finalize

#include <vocabloss/error.hpp>

#include <Kokkos_Core.hpp>

#include <mpi.h>

#include <cstddef>
#include <string>
#include <type_traits>

namespace vocabloss::comm {

class Mpi {
 public:
  static constexpr bool is_asynchronous = false;

  /// Works on a duplicate, so that the caller's messages and error handler stay apart. `comm` stays the caller's.
  /// Collective over `comm`. \throws CommunicationError
  static Mpi duplicate(MPI_Comm comm);
  /// Takes `comm` over and frees it in the end; its error handler becomes MPI_ERRORS_RETURN.
  static Mpi adopt(MPI_Comm comm);

  int rank() const { return rank_; }
  int size() const { return size_; }

  template <class Exec, class Real>
  void all_gather(const Exec& exec, const Real* in, Real* out, std::size_t count) {
    exchange(exec, in, out, count, count * size_,
             [&](const Real* from, Real* to) { gather(from, to, count, kind_of<Real>()); });
  }
  template <class Exec, class Real>
  void all_reduce_max(const Exec& exec, const Real* in, Real* out, std::size_t count) {
    exchange(exec, in, out, count, count,
             [&](const Real* from, Real* to) { reduce(from, to, count, kind_of<Real>(), Operation::max); });
  }
  template <class Exec, class Real>
  void all_reduce_sum(const Exec& exec, const Real* in, Real* out, std::size_t count) {
    exchange(exec, in, out, count, count,
             [&](const Real* from, Real* to) { reduce(from, to, count, kind_of<Real>(), Operation::sum); });
  }

  std::string poll_error() const { return error_; }
  void check() const {
    if (!error_.empty()) throw CommunicationError(error_);
  }
  template <class Exec>
  void wait(const Exec& exec) const {
    exec.fence("VocabLoss::comm::Mpi");
    check();
  }
  template <class Exec>
  std::string describe(const Exec&) const {
    const char* memory = is_host<Exec> ? "host memory" : takes_device_memory_ ? "device memory" : "pinned staging";
    return "mpi, " + std::to_string(size_) + " ranks, " + memory;
  }

 private:
  enum class Number { float32, float64 };
  enum class Operation { max, sum };

  /// A handle that is freed once, wherever it was moved to.
  class Handle {
   public:
    explicit Handle(MPI_Comm comm) : comm_(comm) {}
    Handle(Handle&& other) noexcept : comm_(other.comm_) { other.comm_ = MPI_COMM_NULL; }
    Handle& operator=(Handle&& other) noexcept;
    ~Handle();
    MPI_Comm get() const { return comm_; }

   private:
    MPI_Comm comm_;
  };

#if defined(KOKKOS_HAS_SHARED_HOST_PINNED_SPACE)
  using StagingSpace = Kokkos::SharedHostPinnedSpace;
#else
  using StagingSpace = Kokkos::HostSpace;
#endif
  template <class T>
  using Staged = Kokkos::View<T*, StagingSpace, Kokkos::MemoryUnmanaged>;

  template <class Exec>
  static constexpr bool is_host =
      Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Exec::memory_space>::accessible;

  explicit Mpi(Handle handle);

  template <class Real>
  static constexpr Number kind_of() {
    static_assert(std::is_same_v<Real, float> || std::is_same_v<Real, double>);
    return std::is_same_v<Real, float> ? Number::float32 : Number::float64;
  }

  /// Blocking; on memory that MPI can reach.
  void gather(const void* in, void* out, std::size_t count, Number number);
  void reduce(const void* in, void* out, std::size_t count, Number number, Operation operation);
  void expect_success(int code, const char* call);

  template <class Exec, class Real, class Call>
  void exchange(const Exec& exec, const Real* in, Real* out, std::size_t in_count, std::size_t out_count, Call&& call) {
    check();
    if (in_count == 0) return;
    refuse_capture(exec);
    if (is_host<Exec> || takes_device_memory_) {
      exec.fence("VocabLoss::comm::Mpi");
      return call(in, out);
    }
    using Memory = typename Exec::memory_space;
    const std::size_t in_bytes = (in_count * sizeof(Real) + 63) / 64 * 64;
    const std::size_t bytes = in_bytes + out_count * sizeof(Real);
    if (staging_.size() < bytes) {
      staging_ = Kokkos::View<char*, StagingSpace>(
          Kokkos::view_alloc(Kokkos::WithoutInitializing, "VocabLoss::staging"), bytes);
    }
    const Staged<Real> from(reinterpret_cast<Real*>(staging_.data()), in_count);
    const Staged<Real> to(reinterpret_cast<Real*>(staging_.data() + in_bytes), out_count);
    Kokkos::deep_copy(exec, from, Kokkos::View<const Real*, Memory, Kokkos::MemoryUnmanaged>(in, in_count));
    exec.fence("VocabLoss::comm::Mpi");
    call(from.data(), to.data());
    Kokkos::deep_copy(exec, Kokkos::View<Real*, Memory, Kokkos::MemoryUnmanaged>(out, out_count), to);
    exec.fence("VocabLoss::comm::Mpi");  // the staging is free again, whichever instance comes next
  }

  template <class Exec>
  static void refuse_capture([[maybe_unused]] const Exec& exec) {
#if defined(KOKKOS_ENABLE_CUDA)
    if constexpr (std::is_same_v<Exec, Kokkos::Cuda>) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      if (cudaStreamIsCapturing(exec.cuda_stream(), &status) == cudaSuccess && status != cudaStreamCaptureStatusNone) {
        throw PathRefused(
            "vocabloss: an exchange over MPI cannot be captured in a CUDA graph, because it waits for the "
            "stream: make the plan with a communicator of comm/nccl.hpp");
      }
    }
#endif
  }

  Handle handle_;
  int rank_ = 0;
  int size_ = 1;
  bool takes_device_memory_ = false;
  std::string error_;  ///< of the first call that failed
  Kokkos::View<char*, StagingSpace> staging_;
};

}  // namespace vocabloss::comm

#endif
