// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_ASYNC_CUH
#define VOCABLOSS_IMPL_CUDA_ASYNC_CUH

/// \file
/// \brief Hopper's asynchronous machinery as named functions: barriers in shared memory, bulk copies, remote stores.
///
/// Nothing here knows of rows or losses. PTX ISA 8.x: "mbarrier", "cp.async.bulk", "st.async", "mapa",
/// "barrier.cluster".

#include <cstdint>

namespace vocabloss::Impl {

/// An mbarrier: a phase ends when its arrivals and its announced bytes have all come. The n-th phase has parity n & 1.
using Barrier = std::uint64_t;

/// Shared-memory addresses are 32 bits wide in the instructions below.
__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// The same, hidden from the optimiser, which would otherwise rather compute it anew in every loop than keep it.
__device__ __forceinline__ std::uint32_t kept_shared_address(const void* pointer) {
  std::uint32_t address = shared_address(pointer);
  asm volatile("" : "+r"(address));
  return address;
}

__device__ __forceinline__ uint4 load_shared(std::uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  return v;
}

__device__ __forceinline__ std::uint32_t load_shared_word(std::uint32_t address) {
  std::uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}

// ---- barriers -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void initialise(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}

/// After the initialisation of all barriers: peers and the copy engine see them.
__device__ __forceinline__ void publish_initialised_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void arrive(Barrier* barrier) { arrive(shared_address(barrier)); }

/// One arrival that also announces `bytes` of asynchronous copies or stores. They may land before it does.
__device__ __forceinline__ void arrive_expecting(Barrier* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

/// Nanoseconds that a waiting warp may sleep at a time; it is woken when the phase ends. The default is short, and a
/// warp that asks again takes issue slots from others.
inline constexpr std::uint32_t longest_sleep = 1000000;

/// Returns once the phase of this parity has ended; what its arrivals wrote is visible.
__device__ __forceinline__ void wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1, %2;\n"
      "@!ended bra again_%=;\n"
      "}" ::"r"(barrier),
      "r"(parity), "n"(longest_sleep)
      : "memory");
}
__device__ __forceinline__ void wait(Barrier* barrier, std::uint32_t parity) { wait(shared_address(barrier), parity); }

/// The same where other blocks of the cluster complete the phase.
__device__ __forceinline__ void wait_for_cluster(Barrier* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%0], %1, %2;\n"
      "@!ended bra again_%=;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity), "n"(longest_sleep)
      : "memory");
}

/// Whether the phase of this parity has ended, without waiting.
__device__ __forceinline__ bool has_ended(Barrier* barrier, std::uint32_t parity) {
  std::uint32_t ended;
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
      "selp.u32 %0, 1, 0, ended;\n"
      "}"
      : "=r"(ended)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return ended != 0;
}

/// Ordinary accesses of this thread to shared memory come before the copy engine's that are ordered after this.
__device__ __forceinline__ void order_before_bulk_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// A barrier among `threads` threads of the block (a multiple of 32) that leaves the other warps alone.
__device__ __forceinline__ void synchronise(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// ---- bulk copies: addresses and sizes are multiples of 16 bytes ----------------------------------------------------

__device__ __forceinline__ void bulk_load(void* shared, const void* global, std::uint32_t bytes, Barrier* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

/// The same of what will be read again soon, and then no more.
__device__ __forceinline__ void bulk_load_for_again(void* shared, const void* global, std::uint32_t bytes,
                                                    Barrier* barrier, bool is_last_time) {
  std::uint64_t policy;
  if (is_last_time) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  }
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

/// Brings what lies around an address from memory into L2.
__device__ __forceinline__ void prefetch_to_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// ---- launches that overlap ------------------------------------------------------------------------------------------

/// A launch that says so may begin once every block has come here: before this one ends.
__device__ __forceinline__ void let_next_launch_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
/// Until the launch before this one has ended, and what it wrote is visible.
__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// ---- the cluster ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ int rank_in_cluster() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

__device__ __forceinline__ void synchronise_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The address of the same shared variable in another block of the cluster.
__device__ __forceinline__ std::uint32_t peer_address(const void* pointer, int rank) {
  std::uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(rank));
  return address;
}

/// One arrival at a barrier of another block, which says that this thread has read something; it publishes no writes.
/// (Releasing at cluster scope would wait for all earlier writes: with it a row of 32768 columns took 20 % longer.)
__device__ __forceinline__ void arrive_remotely(std::uint32_t peer_barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer_barrier) : "memory");
}

/// Writes 8 bytes into a peer's shared memory and counts them at the peer's barrier.
__device__ __forceinline__ void store_remotely(std::uint32_t peer_word, std::int64_t value,
                                               std::uint32_t peer_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.s64 [%0], %1, [%2];" ::"r"(peer_word), "l"(value),
               "r"(peer_barrier)
               : "memory");
}

/// Writes a word into a peer's shared memory and counts its 4 bytes at the peer's barrier.
__device__ __forceinline__ void store_remotely(std::uint32_t peer_word, float value, std::uint32_t peer_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(peer_word), "f"(value),
               "r"(peer_barrier)
               : "memory");
}

/// The same of four words, aligned to 16 bytes.
__device__ __forceinline__ void store_remotely(std::uint32_t peer_words, const float (&value)[4],
                                               std::uint32_t peer_barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(peer_words),
      "f"(value[0]), "f"(value[1]), "f"(value[2]), "f"(value[3]), "r"(peer_barrier)
      : "memory");
}

}  // namespace vocabloss::Impl

#endif
