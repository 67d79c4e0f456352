// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_STREAM_STREAM_CUDA_CUH
#define VOCABLOSS_IMPL_STREAM_STREAM_CUDA_CUH

/// \file
/// \brief The plain streaming kernel on CUDA: 16-byte accesses with streaming hints, several loads in flight a thread.

#include <vocabloss/error.hpp>
#include <vocabloss/impl/expect_cuda.cuh>
#include <vocabloss/impl/stream/stream_problem.hpp>

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace vocabloss::Impl {

inline constexpr int stream_threads = 256;

template <int reads, bool writes, bool mixed, int units_per_thread>
__global__ void __launch_bounds__(stream_threads)
    stream_plain_kernel(const __grid_constant__ StreamUnits all, std::int64_t tiles_of_row) {
  constexpr int tile_units = stream_threads * units_per_thread;
  const std::int64_t i = blockIdx.x / tiles_of_row;
  const std::int64_t first = blockIdx.x % tiles_of_row * tile_units + threadIdx.x;
  uint4 value[units_per_thread];
#pragma unroll
  for (int u = 0; u < units_per_thread; ++u) value[u] = make_uint4(0, 0, 0, 0);
    // All loads come before the first store, so that they are in flight together.
#pragma unroll
  for (int r = 0; r < reads; ++r) {
    const int ratio = mixed ? all.read[r].ratio : 1;
    const uint4* row = reinterpret_cast<const uint4*>(all.read[r].row(i));
#pragma unroll
    for (int part = 0; part < (mixed ? 2 : 1); ++part) {
#pragma unroll
      for (int u = 0; u < units_per_thread; ++u) {
        const std::int64_t unit = first + u * stream_threads;
        if (unit >= all.units || part >= ratio) continue;
        const uint4 loaded = __ldcs(row + (mixed ? unit * ratio + part : unit));
        value[u].x ^= loaded.x;
        value[u].y ^= loaded.y;
        value[u].z ^= loaded.z;
        value[u].w ^= loaded.w;
      }
    }
  }
  if constexpr (writes) {
    const int ratio = mixed ? all.write.ratio : 1;
    uint4* row = reinterpret_cast<uint4*>(all.write.row(i));
#pragma unroll
    for (int part = 0; part < (mixed ? 2 : 1); ++part) {
#pragma unroll
      for (int u = 0; u < units_per_thread; ++u) {
        const std::int64_t unit = first + u * stream_threads;
        if (unit < all.units && part < ratio) __stcs(row + (mixed ? unit * ratio + part : unit), value[u]);
      }
    }
  } else {
    // What was read must count as used. An empty asm statement would not do: it is gone before ptxas drops idle loads.
#pragma unroll
    for (int u = 0; u < units_per_thread; ++u) {
      if ((value[u].x ^ value[u].y ^ value[u].z ^ value[u].w) == 0x9e3779b9u) __nanosleep(1);
    }
  }
}

template <int reads, bool writes, int units_per_thread>
void launch_stream_plain(cudaStream_t stream, const StreamUnits& all) {
  constexpr std::int64_t tile_units = stream_threads * units_per_thread;
  const std::int64_t tiles_of_row = (all.units + tile_units - 1) / tile_units;
  const std::int64_t tiles = all.rows * tiles_of_row;
  if (tiles == 0) return;
  expects(tiles <= INT32_MAX, [] { return std::string("too many tiles for one streaming kernel"); });
  const dim3 grid(static_cast<unsigned>(tiles));
  if (all.is_mixed) {
    stream_plain_kernel<reads, writes, true, units_per_thread><<<grid, stream_threads, 0, stream>>>(all, tiles_of_row);
  } else {
    stream_plain_kernel<reads, writes, false, units_per_thread><<<grid, stream_threads, 0, stream>>>(all, tiles_of_row);
  }
  expect_cuda(cudaGetLastError(), "plain streaming kernel");
}

template <int units_per_thread>
void stream_plain(cudaStream_t stream, const StreamUnits& all) {
  const bool writes = all.write.data != nullptr;
  switch (all.reads) {
    case 1:
      return writes ? launch_stream_plain<1, true, units_per_thread>(stream, all)
                    : launch_stream_plain<1, false, units_per_thread>(stream, all);
    case 2:
      return writes ? launch_stream_plain<2, true, units_per_thread>(stream, all)
                    : launch_stream_plain<2, false, units_per_thread>(stream, all);
    case 3:
      return writes ? launch_stream_plain<3, true, units_per_thread>(stream, all)
                    : launch_stream_plain<3, false, units_per_thread>(stream, all);
    default:
      return;
  }
}

}  // namespace vocabloss::Impl

#endif
