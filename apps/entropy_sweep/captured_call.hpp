// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_CAPTURED_CALL_HPP
#define ENTROPY_SWEEP_CAPTURED_CALL_HPP

/// \file
/// A call as a CUDA graph: captured once, launched as often as wanted. Other execution spaces refuse.

#include <Kokkos_Core.hpp>
#include <string>
#include <vocabloss/error.hpp>

namespace entropy_sweep {

template <class Exec>
class CapturedCall {
 public:
  template <class Call>
  CapturedCall(const Exec& exec, Call&&) {
    throw vocabloss::BackendMissing(std::string("--graph captures CUDA work, and this build runs on ") + exec.name() +
                                    ": leave --graph out, or use a build with VocabLoss_ENABLE_CUDA=ON");
  }
  void launch() const {}
};

#if defined(KOKKOS_ENABLE_CUDA)

template <>
class CapturedCall<Kokkos::Cuda> {
 public:
  /// `call` only enqueues on `exec`, and has run before: what it sets up lazily is there.
  /// \throws what `call` throws; vocabloss::CudaError
  template <class Call>
  CapturedCall(const Kokkos::Cuda& exec, Call&& call) : stream_(exec.cuda_stream()) {
    // Of this thread alone: NCCL's own threads go on meanwhile.
    expect(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      call();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      cudaGetLastError();  // an invalidated capture; the exception says why
      throw;
    }
    expect(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    const cudaError_t code = cudaGraphInstantiate(&runnable_, graph, 0);
    cudaGraphDestroy(graph);
    expect(code, "cudaGraphInstantiate");
  }
  ~CapturedCall() { cudaGraphExecDestroy(runnable_); }
  CapturedCall(const CapturedCall&) = delete;
  CapturedCall& operator=(const CapturedCall&) = delete;

  void launch() const { expect(cudaGraphLaunch(runnable_, stream_), "cudaGraphLaunch"); }

 private:
  static void expect(cudaError_t code, const char* what) {
    if (code == cudaSuccess) return;
    cudaGetLastError();
    throw vocabloss::CudaError(std::string("--graph: ") + what + ": " + cudaGetErrorString(code));
  }

  cudaStream_t stream_;
  cudaGraphExec_t runnable_ = nullptr;
};

#endif

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_CAPTURED_CALL_HPP
