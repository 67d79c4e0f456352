// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_RANKS_HPP
#define ENTROPY_SWEEP_RANKS_HPP

/// \file
/// The ranks of a run, without MPI in sight: who prints, which device is whose, how ranks agree, and how the program
/// ends. With --comm self there is one rank and MPI is not started.

#include <cstdint>
#include <string>
#include <vector>

#include "names.hpp"

namespace entropy_sweep {

class Ranks {
 public:
  /// Starts MPI unless `comm` is self or this build has none (one rank then; missing_backend says so); to be made
  /// before Kokkos starts, and to outlive it.
  Ranks(Comm comm, int& argc, char**& argv);
  /// Ends MPI if this object started it. All ranks must come here, or one must `abort`.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Among the ranks that share this host's memory, asked of MPI and not of environment variables.
  int local_rank() const { return local_rank_; }
  /// How many share it.
  int local_size() const { return local_size_; }
  /// The rank that prints tables and writes files.
  bool is_first() const { return rank_ == 0; }
  /// For Kokkos::InitializationSettings::set_device_id: the local ranks take the visible devices in turn.
  int device_of(int visible_devices) const { return visible_devices > 0 ? local_rank_ % visible_devices : 0; }

  // Collective, each:

  /// The largest of all ranks: the time of the slowest, the worst error. NaN wins.
  double largest(double value) const;
  /// The texts of all ranks in their order.
  std::vector<std::string> all_texts(const std::string& mine) const;
  /// The numbers of all ranks, rank after rank, on the first rank; nothing on the others.
  std::vector<double> gather_on_first(const std::vector<double>& mine) const;
  /// Returns when all have called it.
  void meet() const;
  /// One exit code for all: bad input before failed before refused before ok.
  int common_exit_code(int mine) const;

  // Of one rank alone:

  /// "entropy_sweep: rank 2 of 4: what" on stderr, in one piece.
  void say_failure(const std::string& what) const;
  /// Says it and ends the whole run with `code`: for an error that the other ranks do not know of, and would wait for.
  [[noreturn]] void abort(int code, const std::string& what) const;

 private:
  bool uses_mpi_ = false;
  bool started_mpi_ = false;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
};

/// Empty, or why this build has no such ranks and which option switches them on.
std::string missing_backend(Comm comm);

/// The texts of all ranks as one: once where they are all the same, else each that is not empty behind its rank.
std::string common_text(const std::vector<std::string>& texts);

/// One status for a case from those of all ranks: "ok" if all are; else the worst kind, with the number of each rank
/// that has something to say: "failed: rank 1: ...; rank 3: ...". What all say alike is said once, without a number.
std::string common_status(const std::vector<std::string>& statuses);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_RANKS_HPP
