// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_COMMUNICATORS_HPP
#define ENTROPY_SWEEP_COMMUNICATORS_HPP

/// \file
/// The library's communicator for --comm, one for the whole run, without MPI's and NCCL's headers in sight.

#include <memory>
#include <string>

#include "names.hpp"
#include "ranks.hpp"

namespace vocabloss::comm {
class Self;
class Mpi;
class Nccl;
}  // namespace vocabloss::comm

namespace entropy_sweep {

class Communicators {
 public:
  /// To be made after Kokkos has chosen the device, and to be gone before Kokkos and MPI end. Makes nothing yet.
  Communicators(Comm comm, const Ranks& ranks);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  /// Makes the communicator. Collective; later calls do nothing, or throw what the first one threw.
  /// \throws vocabloss::BackendMissing, vocabloss::CommunicationError
  void start();

  /// `Comm` is vocabloss::comm::Self, Mpi or Nccl, whichever --comm says.
  template <class Comm>
  Comm& get();

 private:
  struct Made;

  Comm comm_;
  const Ranks& ranks_;
  std::unique_ptr<Made> made_;
  std::string error_{};  ///< why there is none
};

template <>
vocabloss::comm::Self& Communicators::get<vocabloss::comm::Self>();
template <>
vocabloss::comm::Mpi& Communicators::get<vocabloss::comm::Mpi>();
template <>
vocabloss::comm::Nccl& Communicators::get<vocabloss::comm::Nccl>();

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_COMMUNICATORS_HPP
