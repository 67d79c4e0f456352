// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLOCK_CUH
#define VOCABLOSS_IMPL_CUDA_CLOCK_CUH

/// \file
/// \brief The clock by which waiting is bounded.

#include <cstdint>

namespace vocabloss::Impl {

/// Since some moment, the same for all multiprocessors of the GPU; moves on in steps of up to a microsecond.
__device__ __forceinline__ std::uint64_t nanoseconds() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

}  // namespace vocabloss::Impl

#endif
