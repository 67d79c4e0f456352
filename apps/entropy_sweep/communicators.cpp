// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "communicators.hpp"

#include <optional>
#include <stdexcept>
#include <string>
#include <vocabloss/comm/self.hpp>
#include <vocabloss/config.hpp>
#include <vocabloss/error.hpp>

#if VOCABLOSS_HAVE_MPI
#include <vocabloss/comm/mpi.hpp>
#endif
#if VOCABLOSS_HAVE_NCCL
#include <vocabloss/comm/nccl.hpp>
#endif

namespace entropy_sweep {

struct Communicators::Made {
  vocabloss::comm::Self self{};
#if VOCABLOSS_HAVE_MPI
  std::optional<vocabloss::comm::Mpi> mpi{};
#endif
#if VOCABLOSS_HAVE_NCCL
  std::optional<vocabloss::comm::Nccl> nccl{};
#endif
};

Communicators::Communicators(Comm comm, const Ranks& ranks) : comm_(comm), ranks_(ranks) {}
Communicators::~Communicators() = default;

void Communicators::start() {
  if (!error_.empty()) throw vocabloss::CommunicationError(error_);
  if (made_ != nullptr) return;
  const std::string missing = missing_backend(comm_);
  if (!missing.empty()) throw vocabloss::BackendMissing(missing);
  auto made = std::make_unique<Made>();
  try {
#if VOCABLOSS_HAVE_MPI
    if (comm_ == Comm::mpi) made->mpi.emplace(vocabloss::comm::Mpi::duplicate(MPI_COMM_WORLD));
#endif
#if VOCABLOSS_HAVE_MPI && VOCABLOSS_HAVE_NCCL
    // Each rank on its current device.
    const auto broadcast = [](void* bytes, std::size_t count) {
      MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, 0, MPI_COMM_WORLD);
    };
    if (comm_ == Comm::nccl) {
      made->nccl.emplace(vocabloss::comm::Nccl::create(ranks_.rank(), ranks_.size(), broadcast));
    }
#endif
  } catch (const std::exception& error) {
    error_ = error.what();
    throw;
  }
  made_ = std::move(made);
}

template <>
vocabloss::comm::Self& Communicators::get<vocabloss::comm::Self>() {
  return made_->self;
}

#if VOCABLOSS_HAVE_MPI
template <>
vocabloss::comm::Mpi& Communicators::get<vocabloss::comm::Mpi>() {
  return made_->mpi.value();
}
#endif

#if VOCABLOSS_HAVE_NCCL
template <>
vocabloss::comm::Nccl& Communicators::get<vocabloss::comm::Nccl>() {
  return made_->nccl.value();
}
#endif

}  // namespace entropy_sweep
