// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_PEER_MEMORY_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_PEER_MEMORY_HPP

/// \file
/// \brief Device memory that the GPUs of several processes of one host write into: CUDA IPC (component cuda).
///
/// Handles travel as numbers, through whatever the ranks already gather numbers with, so any communicator will do:
///
///     on every rank   PeerMemory memory(rank, ranks, bytes);  all = gather(memory.invitation());  memory.open(all);
///
/// and, once every rank has opened, memory.settle(). What it holds starts as zeros.
///
/// CUDA forbids freeing memory that another process still has open, and no rank may wait for the others when it drops a
/// plan. So a window is freed by whichever later call finds that all ranks have closed it: they count in a word of
/// shared host memory. What is left then goes with the process.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace vocabloss::Impl {

class ClosedCount;

class PeerMemory {
 public:
  /// On the current device. \throws OutOfMemory, CudaError, PathRefused
  PeerMemory(int rank, int ranks, std::size_t bytes);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// How the other ranks find this rank's window: as many numbers on every rank, all exact in a double.
  std::vector<double> invitation() const;
  /// Opens the windows of all ranks; `all` holds their invitations, rank after rank.
  /// \throws PathRefused  where a window cannot be reached, with the reason
  void open(const std::vector<double>& all);
  /// When all ranks have opened.
  void settle();

  /// Of each rank, as this process reaches it.
  unsigned char* window(int rank) const { return windows_[rank]; }
  std::size_t bytes() const { return bytes_; }

  /// In pinned host memory, zero: for kernels to say that a rank is lost.
  unsigned int* lost() const { return lost_.get(); }
  bool is_lost() const { return *static_cast<volatile unsigned int*>(lost_.get()) != 0; }

 private:
  struct FreePinned {
    void operator()(unsigned int* word) const;
  };

  int rank_, ranks_;
  std::size_t bytes_;
  int device_ = 0;
  std::unique_ptr<unsigned int, FreePinned> lost_;
  std::vector<unsigned char*> windows_;
  std::shared_ptr<ClosedCount> closed_;  ///< from `open` on
  unsigned long number_;                 ///< of this object in this process
};

}  // namespace vocabloss::Impl

#endif
