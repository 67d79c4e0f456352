// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_PLAN_ROWS_CUH
#define VOCABLOSS_PLAN_ROWS_CUH

/// \file
/// \brief Buffers of one batch for the checks of a Plan's contracts, filled on the device, and their bits.

#include <gtest/gtest.h>

#include <vocabloss/vocabloss.hpp>

#include <Kokkos_Core.hpp>

#include <vector>

namespace plan_contracts {

using vocabloss::bfloat16;
using vocabloss::Path;
using Exec = Kokkos::Cuda;
using Batch = vocabloss::Batch<bfloat16, Exec>;
using Matrix = Kokkos::View<bfloat16**, Kokkos::LayoutRight, Kokkos::CudaSpace>;

inline void cuda(cudaError_t code, const char* call) { ASSERT_EQ(code, cudaSuccess) << call; }
#define CUDA_OK(call) ::plan_contracts::cuda(call, #call)

/// A stream of its own and the execution space on it.
struct Stream {
  cudaStream_t stream = nullptr;
  Exec exec;

  Stream() : stream(make()), exec(stream) {}
  ~Stream() {
    exec.fence();
    exec = Exec();
    cudaStreamDestroy(stream);
  }
  Stream(const Stream&) = delete;

 private:
  static cudaStream_t make() {
    cudaStream_t stream = nullptr;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
};

/// Values in about [-6, 6), another set for each seed, the same bits every time.
inline void fill(const Exec& exec, const Matrix& view, std::uint64_t seed) {
  const std::int64_t columns = view.extent(1);
  bfloat16* data = view.data();
  Kokkos::parallel_for(
      "fill",
      Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(exec, 0,
                                                                 static_cast<std::int64_t>(view.extent(0)) * columns),
      KOKKOS_LAMBDA(std::int64_t k) {
        std::uint64_t z = (static_cast<std::uint64_t>(k) + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        const float sum = static_cast<float>(z >> 48) + static_cast<float>((z >> 32) & 0xffff) +
                          static_cast<float>((z >> 16) & 0xffff) + static_cast<float>(z & 0xffff);
        data[k] = vocabloss::narrow<bfloat16>((sum * 0x1p-16f - 2.0f) * 3.0f);
      });
}

/// What a call wrote: its losses, its summary and its gradient.
struct Bits {
  std::vector<unsigned char> bytes;
  bool operator==(const Bits&) const = default;
};

/// A batch with all that it points to.
struct Rows {
  Matrix x, t, g;
  Kokkos::View<int*, Kokkos::CudaSpace> labels;
  Kokkos::View<float*, Kokkos::CudaSpace> losses;
  Kokkos::View<vocabloss::Summary<float>, Kokkos::CudaSpace> summary;

  Rows(std::int64_t rows, std::int64_t columns)
      : x("x", rows, columns),
        t("t", rows, columns),
        g("g", rows, columns),
        labels("labels", rows),
        losses("losses", rows),
        summary("summary") {}

  void set(const Exec& exec, std::uint64_t seed) const {
    fill(exec, x, seed), fill(exec, t, seed + 1000);
    forget(exec);
  }
  /// Outputs hold NaN until a call writes them.
  void forget(const Exec& exec) const {
    CUDA_OK(cudaMemsetAsync(g.data(), 0xff, g.size() * 2, exec.cuda_stream()));
    CUDA_OK(cudaMemsetAsync(losses.data(), 0xff, losses.size() * 4, exec.cuda_stream()));
    CUDA_OK(cudaMemsetAsync(summary.data(), 0xff, sizeof(vocabloss::Summary<float>), exec.cuda_stream()));
  }
  Batch batch() const {
    Batch batch;
    batch.logits(x).teacher(t).labels(labels).losses(losses).gradient(g).summary(summary).divisor(3.0);
    return batch;
  }
  Bits bits(const Exec& exec) const {
    const std::size_t gradient = g.size() * 2, loss = losses.size() * 4, sums = sizeof(vocabloss::Summary<float>);
    Bits result{std::vector<unsigned char>(gradient + loss + sums)};
    const auto copy = [&](std::size_t at, const void* from, std::size_t bytes) {
      CUDA_OK(cudaMemcpyAsync(result.bytes.data() + at, from, bytes, cudaMemcpyDeviceToHost, exec.cuda_stream()));
    };
    copy(0, g.data(), gradient), copy(gradient, losses.data(), loss), copy(gradient + loss, summary.data(), sums);
    exec.fence();
    return result;
  }
};

}  // namespace plan_contracts

#endif
