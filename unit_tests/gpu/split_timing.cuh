// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_SPLIT_TIMING_CUH
#define VOCABLOSS_SPLIT_TIMING_CUH

/// \file
/// \brief Times path `split` beside a kernel that only streams the same bytes, from graphs over rotated buffers.
///
/// A graph holds one launch per set of buffers, and the sets together exceed L2, so that every launch finds its rows in
/// device memory. Time per launch: median over replays of replay time / launches.

#include <vocabloss/impl/cuda/split_shipped.cuh>

#include <random>

#include "row_losses.cuh"

namespace split_check {

using namespace row_check;
using Impl::SplitShape;

/// g = x + t, or g = x + 1: reads and writes each stream once.
template <int streams>
__global__ void __launch_bounds__(512) stream_rows(const uint4* x, const uint4* t, uint4* g, std::int64_t vectors) {
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < vectors; i += 4 * step) {
    uint4 a[4], b[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (i + k * step >= vectors) continue;
      a[k] = x[i + k * step];
      if (streams == 2) b[k] = t[i + k * step];
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (i + k * step >= vectors) continue;
      if (streams == 2) a[k].x += b[k].x, a[k].y ^= b[k].y, a[k].z += b[k].z, a[k].w ^= b[k].w;
      __stcs(g + i + k * step, a[k]);
    }
  }
}

class Timing {
 public:
  Timing(std::int64_t rows, std::int64_t columns, int streams) : rows_(rows), columns_(columns), streams_(streams) {
    const std::int64_t bytes = rows * columns * 2;
    sets_ = static_cast<int>(std::clamp<std::int64_t>((300ll << 20) / (bytes * (streams + 1)), 2, 64));
    CUDA(cudaMalloc(&x_, bytes * sets_));
    CUDA(cudaMalloc(&g_, bytes * sets_));
    CUDA(cudaMalloc(&t_, bytes * sets_));
    CUDA(cudaMalloc(&losses_, rows * 8 * sets_));
    CUDA(cudaMalloc(&labels_, rows * 8));
    CUDA(cudaMalloc(&statistics_, rows * 64));
    CUDA(cudaMemset(labels_, 0, rows * 8));
    std::vector<std::uint16_t> host(1 << 22);
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (auto& value : host) value = narrow<bfloat16>(normal(random)).bits;
    for (auto* buffer : {x_, t_}) {
      for (std::int64_t at = 0; at < bytes * sets_; at += host.size() * 2) {
        CUDA(cudaMemcpy(buffer + at, host.data() + (buffer == t_ ? 1 : 0),
                        std::min<std::int64_t>(host.size() * 2 - 2, bytes * sets_ - at), cudaMemcpyHostToDevice));
      }
    }
    CUDA(cudaStreamCreate(&stream_));
  }
  ~Timing() {
    for (void* p : {(void*)x_, (void*)t_, (void*)g_, (void*)losses_, (void*)labels_, (void*)statistics_}) cudaFree(p);
    cudaStreamDestroy(stream_);
  }

  RowCall<float> call(int set) const {
    const std::int64_t bytes = rows_ * columns_ * 2 * set;
    RowCall<float> call;
    call.rows = rows_, call.columns = static_cast<int>(columns_), call.vocab = columns_;
    call.logits = {x_ + bytes, DataType::bf16, columns_};
    if (streams_ == 2) call.teacher = {t_ + bytes, DataType::bf16, columns_};
    call.gradient = {g_ + bytes, DataType::bf16, columns_, false};
    call.labels64.data = labels_;
    call.losses[0] = losses_ + rows_ * 2 * set;
    return call;
  }

  /// Microseconds a launch.
  template <class Loss>
  float of_loss(Pass pass, const SplitShape& shape) {
    const std::size_t bytes = Impl::split_workspace_bytes<Loss>(shape);
    void* workspace = nullptr;
    CUDA(cudaMalloc(&workspace, bytes));
    Impl::split_initialise(workspace, bytes, stream_);
    const Loss loss(LossOptions{});
    const float time = median([&](int set) {
      RowCall<float> one = call(set);
      if (pass == Pass::backward) one.statistics = statistics_;
      Impl::launch_split<Loss, bfloat16>(loss, one, pass, shape, workspace, stream_);
    });
    CUDA(cudaFree(workspace));
    return time;
  }
  float of_stream() {
    return median([&](int set) {
      const std::int64_t bytes = rows_ * columns_ * 2, vectors = bytes / 16;
      const int blocks = static_cast<int>(std::min<std::int64_t>((vectors + 511) / 512, 132 * 4));
      auto at = [&](unsigned char* base) { return reinterpret_cast<uint4*>(base + bytes * set); };
      if (streams_ == 2) {
        stream_rows<2><<<blocks, 512, 0, stream_>>>(at(x_), at(t_), at(g_), vectors);
      } else {
        stream_rows<1><<<blocks, 512, 0, stream_>>>(at(x_), at(t_), at(g_), vectors);
      }
    });
  }

 private:
  template <class Launch>
  float median(const Launch& launch) {
    launch(0);  // settles shared-memory limits and occupancy before the capture
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    const int launches = std::max(sets_, 16);
    for (int k = 0; k < launches; ++k) launch(k % sets_);
    CUDA(cudaStreamEndCapture(stream_, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    cudaEvent_t begin, end;
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    std::vector<float> times;
    for (int k = 0; k < 12; ++k) {
      CUDA(cudaEventRecord(begin, stream_));
      CUDA(cudaGraphLaunch(executable, stream_));
      CUDA(cudaEventRecord(end, stream_));
      CUDA(cudaEventSynchronize(end));
      float milliseconds;
      CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
      if (k > 2) times.push_back(milliseconds * 1000 / static_cast<float>(launches));
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  std::int64_t rows_, columns_;
  int streams_, sets_;
  unsigned char *x_ = nullptr, *t_ = nullptr, *g_ = nullptr;
  float* losses_ = nullptr;
  float* statistics_ = nullptr;
  std::int64_t* labels_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

template <class Loss>
void time_loss(const char* name, bool sweep) {
  struct Shape {
    std::int64_t rows, columns;
  };
  constexpr Shape shapes[] = {{1, 131072},  {2, 131072}, {8, 131072}, {32, 131072}, {64, 131072},  {131, 131072},
                              {131, 32768}, {1, 32768},  {8, 50257},  {64, 524288}, {16, 1048576}, {64, 2097152}};
  int sm_count = 0;
  CUDA(cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, 0));
  for (const Shape& s : shapes) {
    Timing timing(s.rows, s.columns, Loss::streams);
    const SplitShape chosen = Impl::choose_split_shape(s.rows, s.columns, Loss::streams, DataType::bf16, sm_count,
                                                       Impl::split_blocks_of<Loss>);
    const float stream = timing.of_stream();
    const float time = timing.of_loss<Loss>(Pass::forward_backward, chosen);
    std::printf(
        "%-14s %4lld x %-8lld stream %8.2f us  ours %8.2f us  share %.3f  forward %8.2f us  backward %8.2f us  %s\n",
        name, static_cast<long long>(s.rows), static_cast<long long>(s.columns), stream, time, stream / time,
        timing.of_loss<Loss>(Pass::forward, chosen), timing.of_loss<Loss>(Pass::backward, chosen),
        chosen.describe().c_str());
    if (!sweep) continue;
    for (const int group : {1, 2, 3, 4, 6, 8, 11, 12, 16, 22, 24, 32, 44, 48, 64, 66, 96, 132, 192, 256}) {
      const int blocks = sm_count * Impl::split_blocks_of<Loss>;
      const SplitShape shape{group, static_cast<int>(std::min<std::int64_t>(s.rows, blocks / group)), blocks};
      if (group > blocks || (s.columns >= 524288 && group < 3)) continue;
      std::printf("   %d:%.2f", group, timing.of_loss<Loss>(Pass::forward_backward, shape));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

inline void time_all(bool sweep) {
  time_loss<loss::ReverseKl<float>>("reverse_kl", sweep);
  time_loss<loss::CrossEntropy<float>>("cross_entropy", sweep);
  if (!sweep) time_loss<loss::Jsd<float>>("jsd", sweep);
}

}  // namespace split_check

#endif
