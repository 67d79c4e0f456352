// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_SPLIT_RING_CUH
#define VOCABLOSS_IMPL_CUDA_SPLIT_RING_CUH

/// \file
/// \brief A block's slice of a row on its way through shared memory, walked once a round and once for the gradient.
///
/// Every thread keeps to its own vectors, so that its part of the ring is private: no barrier, and copies in flight
/// cost no registers. A slice is cut into stages. The first walk goes up the slice; the last stages stay in the ring,
/// and the next walk, which goes down, finds them there. Only what did not fit is read again, asked for as slots fall
/// free. During a row's last walk freed slots take the first stages of the next row.
///
///     3 slots, row of 5 stages:   up 0 1 2 3 4,   down 4 3 2 (in the ring) 1 0 (read again), next row 0 1 2 ...

#include <vocabloss/impl/cuda/async.cuh>
#include <vocabloss/impl/cuda/split_row.cuh>
#include <vocabloss/impl/cuda/split_shapes.hpp>

namespace vocabloss::Impl {

/// 16 bytes from device to shared memory, of which `bytes` are read and the rest zero; nobody waits here.
__device__ __forceinline__ void copy_vector(std::uint32_t shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}
__device__ __forceinline__ void close_group_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Returns once all but the newest `pending` groups of this thread have landed.
template <int pending>
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

template <class Loss, class T>
class SplitRing {
 public:
  static constexpr int streams = Loss::streams;
  static constexpr int vectors = split_vectors(streams);  ///< of a thread, stream and stage
  static constexpr int stage_vectors = vectors * split_threads;
  static constexpr int slots = split_stages(streams);
  /// Stages in flight at least: some 96 KiB a multiprocessor.
  static constexpr int depth = 96 * 1024 / split_blocks / split_stage_bytes(streams);
  static_assert(depth < slots);
  using Row = SplitRow<Loss, T>;

  /// Of a block whose slices are the vectors [first_vector, end_vector) of each row, walked `walks` times.
  __device__ __forceinline__ SplitRing(unsigned char* memory, int first_vector, int end_vector, int slice_vectors,
                                       int walks)
      : memory_(memory + threadIdx.x * 16),
        first_(first_vector + static_cast<int>(threadIdx.x)),
        end_(end_vector),
        stages_((slice_vectors + stage_vectors - 1) / stage_vectors),
        near_(min(depth, stages_)),
        keeps_(walks > 1) {}

  /// Asks for the first stages of a row, of which nothing is here. Copies still in flight are waited for.
  __device__ __forceinline__ void start(const Row& row) {
    await_copies<0>();
    slot_ = 0;
    step_ = 1;
    is_filling_ = true;
#pragma unroll 1
    for (int p = 0; p < near_; ++p) {
      ask(row, p, p);
      close_group_of_copies();
    }
  }

  /// The `index`-th walk over the row: calls visit(vector, slot) for each stage, with this thread's first vector of the
  /// stage and where it lies. After the last walk the row `next`, if there is one, must follow.
  template <class Visit>
  __device__ __forceinline__ void walk(const Row& row, int index, bool is_last, const Row& next, bool has_next,
                                       const Visit& visit) {
    if (index > 0) {
      step_ = -step_;
      slot_ = moved(step_);
    }
    const bool goes_down = index % 2 == 1;
    // A kept slice frees a slot a step, for the stage a whole ring ahead. Otherwise stages come `near_` steps ahead.
    const int ahead = keeps_ && !(is_filling_ && index == 0) ? slots : near_;
    const bool asks_next = is_last && has_next;
    if (asks_next && ahead == slots) {
      // A group of copies for each slot that the row leaves empty, so that counting groups is counting steps.
#pragma unroll 1
      for (int p = stages_; p < slots; ++p) {
        if (p - stages_ < stages_) ask(next, p - stages_, moved(p * step_));
        close_group_of_copies();
      }
    }
#pragma unroll 1
    for (int p = 0; p < stages_; ++p) {
      if (stages_ < depth) {
        await_copies<0>();
      } else {
        await_copies<depth - 1>();
      }
      const int stage = goes_down ? stages_ - 1 - p : p;
      visit(first_ + stage * stage_vectors, slot_);
      const int q = p + ahead;
      const int slot = ahead == slots ? slot_ : moved(ahead * step_);
      const bool is_own = q < stages_;
      const int asked = !is_own ? q - stages_ : goes_down ? stages_ - 1 - q : q;
      if (is_own || (asks_next && asked < stages_)) ask(is_own ? row : next, asked, slot);
      close_group_of_copies();
      slot_ = moved(step_);
    }
    if (is_last) is_filling_ = false;
  }

  /// Whether a vector whose first column is `first` is this block's and the row's.
  __device__ __forceinline__ bool holds(int vector, int first, int columns) const {
    return vector < end_ && first < columns;
  }
  /// The v-th vector of this thread in a slot.
  __device__ __forceinline__ uint4 vector(int slot, int stream, int v) const {
    return *reinterpret_cast<const uint4*>(memory_ + offset(slot, stream, v));
  }
  /// For what is not read through the ring: visit(vector) for each vector of this thread.
  template <class Visit>
  __device__ __forceinline__ void for_each_vector(const Visit& visit) const {
    for (int vector = first_; vector < end_; vector += split_threads) visit(vector);
  }

 private:
  static __device__ __forceinline__ int offset(int slot, int stream, int v) {
    return ((slot * streams + stream) * vectors + v) * (split_threads * 16);
  }
  /// The slot some steps on; |steps| < slots.
  __device__ __forceinline__ int moved(int steps) const {
    const int slot = slot_ + steps;
    return slot < 0 ? slot + slots : slot >= slots ? slot - slots : slot;
  }
  __device__ __forceinline__ void ask(const Row row, int stage, int slot) const {
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      const int vector = first_ + stage * stage_vectors + v * split_threads;
      const int first = row.first_column(vector);
      if (!holds(vector, first, row.columns)) break;
      const int bytes = row.bytes_to_read(first);
      copy_vector(shared_address(memory_ + offset(slot, 0, v)), row.x + first, bytes);
      if (streams == 2 && row.teacher_is_parallel) {
        copy_vector(shared_address(memory_ + offset(slot, 1, v)), static_cast<const T*>(row.teacher) + first, bytes);
      }
    }
  }

  unsigned char* memory_;
  int first_, end_, stages_, near_;
  int slot_ = 0, step_ = 1;
  bool keeps_;              ///< a later walk finds what is still in the ring
  bool is_filling_ = true;  ///< no row has been finished since start
};

}  // namespace vocabloss::Impl

#endif
