// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_COMMUNICATORS_HPP
#define ENTROPY_SWEEP_COMMUNICATORS_HPP

/// \file
/// The library's communicator for --comm, over the ranks of the run. Kept apart from ranks.hpp because it includes
/// MPI's and NCCL's headers.

#include <string>
#include <vocabloss/config.hpp>
#include <vocabloss/error.hpp>

#include "names.hpp"
#include "ranks.hpp"

#if VOCABLOSS_HAVE_MPI
#include <vocabloss/comm/mpi.hpp>
#endif
#if VOCABLOSS_HAVE_NCCL
#include <vocabloss/comm/nccl.hpp>
#endif

namespace entropy_sweep {

#if VOCABLOSS_HAVE_MPI
inline vocabloss::comm::Mpi make_mpi_communicator() { return vocabloss::comm::Mpi::duplicate(MPI_COMM_WORLD); }
#endif

#if VOCABLOSS_HAVE_MPI && VOCABLOSS_HAVE_NCCL
/// Each rank on its current device; to be called after Kokkos has chosen it.
inline vocabloss::comm::Nccl make_nccl_communicator(const Ranks& ranks) {
  const auto broadcast = [](void* bytes, std::size_t count) {
    MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, 0, MPI_COMM_WORLD);
  };
  return vocabloss::comm::Nccl::create(ranks.rank(), ranks.size(), broadcast);
}
#endif

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_COMMUNICATORS_HPP
