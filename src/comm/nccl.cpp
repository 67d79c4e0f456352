// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The NCCL calls behind comm/nccl.hpp: handles, error texts, polling and the time limit.

#include <vocabloss/comm/nccl.hpp>
#include <vocabloss/error.hpp>
#include <vocabloss/impl/expect_cuda.cuh>

#include <thread>
#include <utility>

namespace vocabloss::comm {
namespace {

using Impl::expect_cuda;

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  expect_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

/// A thread that captures a graph may not query events, lest the capture break, unless it says that it knows better.
class QueriesAllowed {
 public:
  QueriesAllowed() { expect_cuda(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode"); }
  ~QueriesAllowed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  QueriesAllowed(const QueriesAllowed&) = delete;
  QueriesAllowed& operator=(const QueriesAllowed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

Nccl::Handle& Nccl::Handle::operator=(Handle&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(owner_, other.owner_);
  return *this;
}

Nccl::Handle::~Handle() {
  if (comm_ && owner_ == Owner::us) ncclCommDestroy(comm_);
}

void Nccl::Handle::abort() {
  if (comm_ && owner_ == Owner::us) ncclCommAbort(comm_);
  comm_ = nullptr;
}

Nccl::Event::Event() {
  expect_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

Nccl::Event& Nccl::Event::operator=(Event&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

Nccl::Event::~Event() {
  if (event_) cudaEventDestroy(event_);
}

Nccl::Nccl(Handle handle, const NcclOptions& options) : handle_(std::move(handle)), time_limit_(options.time_limit) {
  if (ncclCommUserRank(handle_.get(), &rank_) != ncclSuccess || ncclCommCount(handle_.get(), &size_) != ncclSuccess) {
    fail("the communicator does not know its ranks: " + std::string(ncclGetLastError(handle_.get())));
  }
}

Nccl Nccl::create(int rank, int size, const Broadcast& broadcast, const NcclOptions& options) {
  ncclUniqueId id{};
  // Rank 0 broadcasts even if it could not make an id: the others would wait for it, and then fail with it.
  const ncclResult_t made = rank == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
  broadcast(&id, sizeof id);
  ncclComm_t comm = nullptr;
  const ncclResult_t code = made != ncclSuccess ? made : ncclCommInitRank(&comm, size, id, rank);
  if (code != ncclSuccess) {
    throw CommunicationError("vocabloss: NCCL could not be started on rank " + std::to_string(rank) + " of " +
                             std::to_string(size) + ": " + ncclGetErrorString(code) + " (" + ncclGetLastError(nullptr) +
                             ")");
  }
  return Nccl(Handle(comm, Owner::us), options);
}

Nccl Nccl::adopt(ncclComm_t comm, const NcclOptions& options) { return Nccl(Handle(comm, Owner::us), options); }
Nccl Nccl::borrow(ncclComm_t comm, const NcclOptions& options) { return Nccl(Handle(comm, Owner::caller), options); }

std::string Nccl::version() {
  int number = 0;
  if (ncclGetVersion(&number) != ncclSuccess) return "of unknown version";
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

/// Remembers the first error, and ends kernels that wait for a rank which will not come.
void Nccl::fail(const std::string& what) {
  if (error_.empty()) {
    error_ = "vocabloss: NCCL on rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ": " + what;
    handle_.abort();
  }
  throw CommunicationError(error_);
}

void Nccl::ask_library() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t code = ncclCommGetAsyncError(handle_.get(), &state);
  if (code != ncclSuccess) fail(std::string("ncclCommGetAsyncError: ") + ncclGetErrorString(code));
  if (state != ncclSuccess && state != ncclInProgress) {
    fail(std::string(ncclGetErrorString(state)) + " (" + ncclGetLastError(handle_.get()) + ")");
  }
}

void Nccl::ask_clock() {
  if (!is_pending_) return;
  const cudaError_t state = cudaEventQuery(last_.get());
  if (state == cudaSuccess) {
    is_pending_ = false;
  } else if (state != cudaErrorNotReady) {
    fail(std::string("the device failed: ") + cudaGetErrorString(state));
  } else if (std::chrono::steady_clock::now() - enqueued_ > time_limit_) {
    fail("an exchange did not end within " + std::to_string(time_limit_.count()) +
         " ms: a rank is lost, late, or made other calls");
  }
}

void Nccl::check() {
  if (!error_.empty()) throw CommunicationError(error_);
  ask_library();
  const QueriesAllowed while_capturing;
  ask_clock();
}

std::string Nccl::poll_error() {
  try {
    check();
  } catch (const CommunicationError&) {
  }
  return error_;
}

void Nccl::begin(cudaStream_t stream) {
  if (!error_.empty()) throw CommunicationError(error_);
  ask_library();
  if (!is_capturing(stream)) ask_clock();
}

void Nccl::end(ncclResult_t code, const char* call, cudaStream_t stream) {
  if (code != ncclSuccess) {
    fail(std::string(call) + ": " + ncclGetErrorString(code) + " (" + ncclGetLastError(handle_.get()) + ")");
  }
  if (is_capturing(stream)) return;  // it runs when the graph does: `wait` watches the instance instead
  expect_cuda(cudaEventRecord(last_.get(), stream), "cudaEventRecord");
  enqueued_ = std::chrono::steady_clock::now();
  is_pending_ = true;
}

void Nccl::gather(const void* in, void* out, std::size_t count, ncclDataType_t type, cudaStream_t stream) {
  begin(stream);
  end(ncclAllGather(in, out, count, type, handle_.get(), stream), "ncclAllGather", stream);
}

void Nccl::reduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                  cudaStream_t stream) {
  begin(stream);
  end(ncclAllReduce(in, out, count, type, operation, handle_.get(), stream), "ncclAllReduce", stream);
}

void Nccl::wait_for(cudaStream_t stream) {
  if (!error_.empty()) throw CommunicationError(error_);
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) break;
    if (state != cudaErrorNotReady) fail(std::string("the device failed: ") + cudaGetErrorString(state));
    ask_library();
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > time_limit_) {
      fail("the stream did not end within " + std::to_string(time_limit_.count()) +
           " ms: a rank is lost, late, or made other calls");
    }
    // Short waits stay short; long ones leave the core to others.
    if (waited > std::chrono::milliseconds(1)) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  ask_library();
}

}  // namespace vocabloss::comm
