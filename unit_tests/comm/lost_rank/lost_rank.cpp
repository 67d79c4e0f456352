// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// lost_rank kill|stop in_kernel|nccl: the last rank ends or stops in the middle of many calls. Every other rank prints
// "rank <r> reported after <ms> ms: <error>" and exits with 0; one that does not learn of it in time exits with 1.
// check.sh beside this file launches it and counts the lines.

#include <vocabloss/comm/mpi.hpp>
#include <vocabloss/config.hpp>
#include <vocabloss/vocabloss.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>

#include <unistd.h>
#include <chrono>

#if VOCABLOSS_HAVE_NCCL
#include <vocabloss/comm/nccl.hpp>
#endif

namespace {

using Exec = Kokkos::Cuda;
using Clock = std::chrono::steady_clock;
using vocabloss::Exchange;
using vocabloss::Path;

constexpr std::chrono::milliseconds time_limit(2000);
constexpr std::chrono::milliseconds patience(20000);

template <class Comm>
int run(Comm& comm, Exchange exchange, int signal) {
  using Plan = vocabloss::Plan<vocabloss::loss::ReverseKl, float, Exec, Comm>;
  constexpr std::int64_t rows = 512, columns = 4096;
  const int rank = comm.rank(), ranks = comm.size();
  const Exec exec;
  const Kokkos::View<float**, Kokkos::LayoutRight, Exec> x("x", rows, columns), t("t", rows, columns),
      dx("dx", rows, columns);
  const Kokkos::View<float*, Exec> losses("losses", rows);
  vocabloss::Batch<float, Exec> batch;
  batch.logits(x).teacher(t).losses(losses).gradient(dx).partition({columns * ranks, columns * rank, columns});
  // Never destroyed: a rank is missing.
  auto* plan = new Plan(exec, comm, batch, {}, {.exchange = exchange, .time_limit = time_limit});
  for (int call = 0; call < 20; ++call) plan->forward_backward(exec, batch);
  plan->wait(exec);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank + 1 == ranks) std::raise(signal);

  const auto start = Clock::now();
  while (Clock::now() - start < patience) {
    try {
      plan->forward_backward(exec, batch);
      plan->wait(exec);
    } catch (const vocabloss::CommunicationError& error) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
      std::printf("rank %d reported after %lld ms: %s\n", rank, static_cast<long long>(waited.count()), error.what());
      return 0;
    }
  }
  std::printf("rank %d noticed nothing\n", rank);
  return 1;
}

int run(const std::string& what, int signal) {
  if (what == "in_kernel") {
    auto* mpi = new vocabloss::comm::Mpi(vocabloss::comm::Mpi::duplicate(MPI_COMM_WORLD));
    return run(*mpi, Exchange::in_kernel, signal);
  }
#if VOCABLOSS_HAVE_NCCL
  using vocabloss::comm::Nccl;
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto broadcast = [](void* bytes, std::size_t count) {
    MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, 0, MPI_COMM_WORLD);
  };
  auto* nccl = new Nccl(Nccl::create(rank, ranks, broadcast, {.time_limit = time_limit}));
  return run(*nccl, Exchange::allgather, signal);
#else
  std::printf("this build has no NCCL\n");
  return 2;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int place = 0, devices = 0;
  MPI_Comm_rank(host, &place);
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 || argc != 3) return 2;
  Kokkos::initialize(Kokkos::InitializationSettings().set_device_id(place % devices));
  int code = 1;
  try {
    code = run(argv[2], std::string(argv[1]) == "stop" ? SIGSTOP : SIGKILL);
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
  }
  std::fflush(stdout);
  // Neither Kokkos nor MPI can be ended in order: both would wait for the lost rank.
  _exit(code);
}
