// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_STREAM_STREAM_BULK_CUH
#define VOCABLOSS_IMPL_STREAM_STREAM_BULK_CUH

/// \file
/// \brief The bulk-copy streaming kernel (sm_90): one thread a CTA keeps a ring of shared-memory slots full with
/// cp.async.bulk and sends each slot out again. The copies themselves are all that moves; no thread touches the data.

#include <vocabloss/impl/stream/stream_cuda.cuh>

#include <cuda_runtime.h>

#include <cstdint>

namespace vocabloss::Impl {

inline constexpr int stream_bulk_slots = 6;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
namespace stream_ptx {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ inline void barrier_init(std::uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}
__device__ inline void barrier_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  while (!done) {
    asm volatile(
        "{\n\t.reg .pred complete;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, complete;\n\t}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}
/// The policy that drops the lines first: nothing is read twice.
__device__ inline std::uint64_t evict_first() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline void load(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier,
                            std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}
__device__ inline void store(void* global, const void* shared, std::uint32_t bytes, std::uint64_t policy) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(
                   __cvta_generic_to_global(global)),
               "r"(shared_address(shared)), "r"(bytes), "l"(policy)
               : "memory");
}

}  // namespace stream_ptx
#endif

/// Slots of `slot_bytes`; a tile is `tile_units` units of the narrowest stream.
template <bool writes>
__global__ void __launch_bounds__(32)
    stream_bulk_kernel(const __grid_constant__ StreamUnits all, std::int64_t tiles_of_row, int tile_units,
                       std::uint32_t slot_bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using namespace stream_ptx;
  extern __shared__ __align__(128) char slots[];
  __shared__ std::uint64_t full[stream_bulk_slots];
  if (threadIdx.x != 0) return;
  for (int s = 0; s < stream_bulk_slots; ++s) barrier_init(&full[s]);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
  const std::uint64_t policy = evict_first();
  const std::int64_t tiles = all.rows * tiles_of_row;
  const std::int64_t mine = (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x;
  const auto units_at = [&](std::int64_t tile, std::int64_t& row, std::int64_t& first) {
    row = tile / tiles_of_row;
    first = tile % tiles_of_row * tile_units;
    const std::int64_t left = all.units - first;
    return static_cast<std::uint32_t>(left < tile_units ? left : tile_units);
  };
  const auto fill = [&](std::int64_t turn) {
    if (turn >= mine) return;
    const int slot = static_cast<int>(turn % stream_bulk_slots);
    std::int64_t row, first;
    const std::uint32_t units = units_at(blockIdx.x + turn * gridDim.x, row, first);
    std::uint32_t total = 0;
    for (int r = 0; r < all.reads; ++r) total += units * 16u * all.read[r].ratio;
    barrier_expect(&full[slot], total);
    char* target = slots + slot * slot_bytes;
    for (int r = 0; r < all.reads; ++r) {
      const std::uint32_t bytes = units * 16u * all.read[r].ratio;
      load(target, all.read[r].row(row) + first * 16 * all.read[r].ratio, bytes, &full[slot], policy);
      target += bytes;
    }
  };
  for (int turn = 0; turn < stream_bulk_slots - 1; ++turn) fill(turn);
  for (std::int64_t turn = 0; turn < mine; ++turn) {
    const int slot = static_cast<int>(turn % stream_bulk_slots);
    barrier_wait(&full[slot], static_cast<std::uint32_t>(turn / stream_bulk_slots) & 1u);
    if constexpr (writes) {
      std::int64_t row, first;
      const std::uint32_t units = units_at(blockIdx.x + turn * gridDim.x, row, first);
      store(all.write.row(row) + first * 16 * all.write.ratio, slots + slot * slot_bytes, units * 16u * all.write.ratio,
            policy);
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      // The slot filled next was sent out one turn ago: wait until that copy has read it, not the one just begun.
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    }
    fill(turn + stream_bulk_slots - 1);
  }
  if constexpr (writes) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

template <bool writes>
void launch_stream_bulk(cudaStream_t stream, const StreamUnits& all, int multiprocessors, int ctas_per_multiprocessor) {
  // The slots of a CTA share what a multiprocessor has: 216 KiB, of which each CTA keeps a little for itself.
  int units_of_tile = 0;
  for (int r = 0; r < all.reads; ++r) units_of_tile += all.read[r].ratio;
  if (writes && all.write.ratio > units_of_tile) units_of_tile = all.write.ratio;
  const int shared = 216 * 1024 / ctas_per_multiprocessor - 1024;
  const int tile_units = shared / stream_bulk_slots / (16 * units_of_tile) / 8 * 8;
  const auto slot_bytes = static_cast<std::uint32_t>(tile_units * 16 * units_of_tile);
  const std::int64_t tiles_of_row = (all.units + tile_units - 1) / tile_units;
  const std::int64_t tiles = all.rows * tiles_of_row;
  if (tiles == 0) return;
  const int bytes = static_cast<int>(slot_bytes) * stream_bulk_slots;
  const std::int64_t most = static_cast<std::int64_t>(multiprocessors) * ctas_per_multiprocessor;
  expect_cuda(cudaFuncSetAttribute(stream_bulk_kernel<writes>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
              "bulk streaming kernel");
  const dim3 grid(static_cast<unsigned>(tiles < most ? tiles : most));
  stream_bulk_kernel<writes><<<grid, 32, bytes, stream>>>(all, tiles_of_row, tile_units, slot_bytes);
  expect_cuda(cudaGetLastError(), "bulk streaming kernel");
}

inline void stream_bulk(cudaStream_t stream, const StreamUnits& all, int multiprocessors, int ctas_per_multiprocessor) {
  if (all.write.data) {
    launch_stream_bulk<true>(stream, all, multiprocessors, ctas_per_multiprocessor);
  } else {
    launch_stream_bulk<false>(stream, all, multiprocessors, ctas_per_multiprocessor);
  }
}

}  // namespace vocabloss::Impl

#endif
