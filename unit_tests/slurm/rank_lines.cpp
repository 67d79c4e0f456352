// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// A line for each rank, with a sum over all of them that the library's communicator made: what check.sh counts.
//   --exit-with CODE   all ranks end with it
//   --fail-on RANK     that rank fails, while the others wait for it in an exchange

#include <vocabloss/comm/mpi.hpp>

#include <Kokkos_Core.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "ranks.hpp"

int main(int argc, char** argv) {
  entropy_sweep::Ranks ranks(entropy_sweep::Comm::mpi, argc, argv);
  const std::string option = argc > 2 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  if (option == "--exit-with") return ranks.common_exit_code(ranks.is_first() ? number : 0);

  const Kokkos::ScopeGuard kokkos(argc, argv);
  vocabloss::comm::Mpi comm = vocabloss::comm::Mpi::duplicate(MPI_COMM_WORLD);
  if (option == "--fail-on" && number == ranks.rank()) ranks.abort(1, "asked to fail");
  const float mine = static_cast<float>(ranks.rank() + 1);
  float sum = 0;
  comm.all_reduce_sum(Kokkos::DefaultHostExecutionSpace(), &mine, &sum, 1);
  std::printf("rank %d of %d: local rank %d, sum %g\n", ranks.rank(), ranks.size(), ranks.local_rank(), sum);
  return 0;
}
