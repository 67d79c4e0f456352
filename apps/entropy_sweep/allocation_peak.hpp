// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_ALLOCATION_PEAK_HPP
#define ENTROPY_SWEEP_ALLOCATION_PEAK_HPP

/// \file
/// The most memory that Kokkos held at once, seen through its profiling callbacks: it counts what a path allocates, not
/// what it says that it does.

#include <cstdint>

namespace entropy_sweep {

/// Counts from construction on. One at a time. A tool that is loaded already keeps getting its callbacks.
class AllocationPeak {
 public:
  AllocationPeak();
  ~AllocationPeak();
  AllocationPeak(const AllocationPeak&) = delete;
  AllocationPeak& operator=(const AllocationPeak&) = delete;

  /// Above what was held at construction.
  std::int64_t bytes() const;
};

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_ALLOCATION_PEAK_HPP
