// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The MPI calls behind comm/mpi.hpp: handles, counts, error texts, and whether this MPI takes device memory.

#include <vocabloss/comm/mpi.hpp>

#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

#include <limits>
#include <utility>

namespace vocabloss::comm {
namespace {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "error " + std::to_string(code);
  return std::string(text, static_cast<std::size_t>(length));
}

/// Open MPI and MPICH each have a question of their own; an MPI that cannot be asked gets host memory.
bool takes_device_memory() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
  int answer = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &answer) == MPI_SUCCESS && answer;
#else
  return false;
#endif
}

int counted(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw InvalidArgument("vocabloss: one exchange over MPI holds at most " +
                          std::to_string(std::numeric_limits<int>::max()) + " values, and " + std::to_string(count) +
                          " were asked for");
  }
  return static_cast<int>(count);
}

}  // namespace

Mpi::Handle& Mpi::Handle::operator=(Handle&& other) noexcept {
  std::swap(comm_, other.comm_);
  return *this;
}

Mpi::Handle::~Handle() {
  int finalized = 0;
  if (comm_ == MPI_COMM_NULL || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized) return;
  MPI_Comm_free(&comm_);
}

Mpi::Mpi(Handle handle) : handle_(std::move(handle)), takes_device_memory_(takes_device_memory()) {
  expect_success(MPI_Comm_set_errhandler(handle_.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  expect_success(MPI_Comm_rank(handle_.get(), &rank_), "MPI_Comm_rank");
  expect_success(MPI_Comm_size(handle_.get(), &size_), "MPI_Comm_size");
}

Mpi Mpi::duplicate(MPI_Comm comm) {
  int started = 0;
  int finalized = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&finalized);
  if (!started || finalized) {
    throw CommunicationError("vocabloss: comm::Mpi was asked for before MPI_Init or after MPI_Finalize");
  }
  MPI_Comm copy = MPI_COMM_NULL;
  const int code = MPI_Comm_dup(comm, &copy);
  if (code != MPI_SUCCESS) throw CommunicationError("vocabloss: MPI_Comm_dup failed: " + text_of(code));
  return Mpi(Handle(copy));
}

Mpi Mpi::adopt(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) throw InvalidArgument("vocabloss: comm::Mpi::adopt was given MPI_COMM_NULL");
  return Mpi(Handle(comm));
}

void Mpi::expect_success(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  error_ = "vocabloss: " + std::string(call) + " failed on rank " + std::to_string(rank_) + " of " +
           std::to_string(size_) + ": " + text_of(code);
  check();
}

void Mpi::gather(const void* in, void* out, std::size_t count, Number number) {
  const MPI_Datatype type = number == Number::float32 ? MPI_FLOAT : MPI_DOUBLE;
  const int values = counted(count);
  expect_success(MPI_Allgather(in, values, type, out, values, type, handle_.get()), "MPI_Allgather");
}

void Mpi::reduce(const void* in, void* out, std::size_t count, Number number, Operation operation) {
  const MPI_Datatype type = number == Number::float32 ? MPI_FLOAT : MPI_DOUBLE;
  const MPI_Op op = operation == Operation::max ? MPI_MAX : MPI_SUM;
  expect_success(MPI_Allreduce(in, out, counted(count), type, op, handle_.get()), "MPI_Allreduce");
}

}  // namespace vocabloss::comm
