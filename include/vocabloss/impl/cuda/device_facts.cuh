// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_DEVICE_FACTS_CUH
#define VOCABLOSS_IMPL_CUDA_DEVICE_FACTS_CUH

/// \file
/// \brief What the choice of a CUDA launch needs to know of the current device; asked of the driver once a device.

#include <vocabloss/impl/expect_cuda.cuh>

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <string>

namespace vocabloss::Impl {

/// Major compute capability and multiprocessors of the current device.
struct DeviceFacts {
  int capability;
  int multiprocessors;

  static DeviceFacts of_current_device() {
    int device = 0;
    expect_cuda(cudaGetDevice(&device), "cudaGetDevice");
    return {attribute(cudaDevAttrComputeCapabilityMajor, device), attribute(cudaDevAttrMultiProcessorCount, device)};
  }

  /// Empty on a Hopper device; the kernels of VocabLoss::cuda are compiled for no other.
  std::string refusal(const char* path) const {
    if (capability == 9) return {};
    return "path " + std::string(path) + " is compiled for compute capability 9.0, this device has " +
           std::to_string(capability) + ".x: use path team";
  }

 private:
  static int attribute(cudaDeviceAttr which, int device) {
    int value = 0;
    expect_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
    return value;
  }
};

}  // namespace vocabloss::Impl

#endif
