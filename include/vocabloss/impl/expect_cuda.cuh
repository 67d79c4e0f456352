// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_EXPECT_CUDA_CUH
#define VOCABLOSS_IMPL_EXPECT_CUDA_CUH

/// \file
/// \brief What a call of the CUDA runtime returned, as an exception.

#include <vocabloss/error.hpp>

#include <cuda_runtime.h>

#include <string>

namespace vocabloss::Impl {

/// \throws CudaError  with the name of the call and what CUDA says of it, unless it succeeded
inline void expect_cuda(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw CudaError(std::string("vocabloss: ") + call + ": " + cudaGetErrorString(code));
}

}  // namespace vocabloss::Impl

#endif
