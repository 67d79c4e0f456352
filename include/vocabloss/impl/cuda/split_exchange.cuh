// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_SPLIT_EXCHANGE_CUH
#define VOCABLOSS_IMPL_CUDA_SPLIT_EXCHANGE_CUH

/// \file
/// \brief The algebra's merge over a block, and over a group of blocks that meet in device memory.
///
/// A block posts each word of its state together with the number of the exchange, as one 8-byte store; the others of
/// its group poll the words themselves. No counter, no fence, no second round trip: a word that carries the awaited
/// number is the awaited word. Words are doubled by the number's parity: a block posts exchange n + 2 after it has seen
/// all of n + 1, which the others post after they have read all of n.
///
/// The number goes on from launch to launch, replays of a CUDA graph included: every block keeps its own in the
/// workspace, reads it when it starts and writes it back when it leaves. Every launch advances all numbers alike, those
/// of blocks that it does not have too, by as much as any group may use: a later launch of another shape finds no word
/// that already carries one of its numbers.

#include <vocabloss/impl/cuda/clock.cuh>
#include <vocabloss/impl/cuda/merge_block.cuh>
#include <vocabloss/impl/cuda/split_shapes.hpp>

#include <cstdint>

namespace vocabloss::Impl {

/// The start of the workspace; zeroed once, when it is made.
struct SplitHeader {
  std::uint32_t lost;  ///< not 0: a wait was given up; losses and gradients of its row are NaN
};

struct SplitWorkspace {
  SplitHeader* header;
  std::uint32_t* numbers;  ///< [block]: of the last exchange
  std::uint64_t* words;    ///< [parity][word][block], with the words of the larger state where rounds differ
  int blocks;              ///< of the launch
  int blocks_at_most;      ///< of any launch
  int group;               ///< blocks that share a row
  std::uint32_t numbers_of_launch;

  /// Read by every thread before its first exchange.
  __device__ __forceinline__ std::uint32_t number() const { return numbers[blockIdx.x]; }
  /// Called by one thread after the block's last barrier.
  __device__ __forceinline__ void advance(std::uint32_t number_at_start) const {
    for (int b = blockIdx.x; b < blocks_at_most; b += blocks) numbers[b] = number_at_start + numbers_of_launch;
  }

  template <int Words>
  __device__ __forceinline__ std::uint64_t* word(std::uint32_t number, int w, int block) const {
    return words + (static_cast<int>(number & 1) * Words + w) * blocks + block;
  }
};

/// A block's scratch for merging, and its place in the sequence of exchanges.
template <int Words>
struct SplitMerge {
  static constexpr int warps = split_threads / 32;
  float of_warp[warps][Words];
  float of_part[warps][Words];
};

__device__ __forceinline__ void post_word(std::uint64_t* word, float value, std::uint32_t number) {
  const std::uint64_t pair = static_cast<std::uint64_t>(number) << 32 | __float_as_uint(value);
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(word), "l"(pair) : "memory");
}

__device__ __forceinline__ std::uint64_t look_at_word(const std::uint64_t* word) {
  std::uint64_t pair;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(pair) : "l"(word) : "memory");
  return pair;
}

/// The state that a block posted under this number. All blocks of the grid are resident, so the wait is short; should
/// it last ten seconds all the same, it is given up, and the state that was not found is NaN.
template <class State, int Words>
__device__ __forceinline__ State await_state(const SplitWorkspace& workspace, std::uint32_t number, int block) {
  constexpr int count = words_of<State>;
  WordsOf<State> state;
  std::uint64_t deadline = 0;
  for (int polls = 0;; ++polls) {
    bool complete = true;
#pragma unroll
    for (int w = 0; w < count; ++w) {
      const std::uint64_t pair = look_at_word(workspace.word<Words>(number, w, block));
      state.word[w] = __uint_as_float(static_cast<std::uint32_t>(pair));
      complete = complete && static_cast<std::uint32_t>(pair >> 32) == number;
    }
    if (complete) break;
    if (polls % 1024 == 1023) {
      const std::uint64_t now = nanoseconds();
      if (deadline == 0) deadline = now + 10'000'000'000ull;
      if (now > deadline || *static_cast<volatile std::uint32_t*>(&workspace.header->lost)) {
        *static_cast<volatile std::uint32_t*>(&workspace.header->lost) = 1;
        for (int w = 0; w < count; ++w) state.word[w] = __uint_as_float(0x7fffffffu);
        break;
      }
    }
  }
  return from_words(state);
}

/// The smallest power of two that is not below `count`.
__device__ __forceinline__ int power_of_two(int count) { return count <= 1 ? 1 : 1 << (32 - __clz(count - 1)); }

/// Lane 0's state in all lanes: a butterfly of merges may differ in the last bit from lane to lane, since a fused
/// multiply-add favours one of its two terms.
template <class State>
__device__ __forceinline__ State of_first_lane(const State& state) {
  WordsOf<State> words = to_words(state);
#pragma unroll
  for (int w = 0; w < words_of<State>; ++w) words.word[w] = __shfl_sync(0xffffffffu, words.word[w], 0);
  return from_words(words);
}

/// Merges up to 32 states in shared memory; every warp that calls it gets the same bits in all lanes.
template <int Round, class Loss, class State, int Words>
__device__ __forceinline__ State merge_shared(const Loss& loss, const float (*states)[Words], int count) {
  const int lane = threadIdx.x % 32;
  WordsOf<State> words = to_words(State(Loss::template identity<Round, 1>()));
  if (lane < count) {
#pragma unroll
    for (int w = 0; w < words_of<State>; ++w) words.word[w] = states[lane][w];
  }
  return of_first_lane(merge_lanes<Round>(loss, from_words(words), power_of_two(count)));
}

/// \brief From the states of all threads of the group to the row's state, the same bits in each of them.
///
/// Called by all threads of all blocks of the group, in the same order of rows and rounds. `number` counts exchanges.
template <int Round, class Loss, int Words>
__device__ __forceinline__ typename Loss::template State<Round> merge_group(const Loss& loss,
                                                                            typename Loss::template State<Round> state,
                                                                            SplitMerge<Words>& merge,
                                                                            const SplitWorkspace& workspace,
                                                                            std::uint32_t number) {
  using State = typename Loss::template State<Round>;
  constexpr int count = words_of<State>;
  static_assert(count <= Words);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto leave = [&](float(*states)[Words], const State& merged) {
    const WordsOf<State> words = to_words(merged);
    if (lane == 0) {
#pragma unroll
      for (int w = 0; w < count; ++w) states[warp][w] = words.word[w];
    }
  };
  leave(merge.of_warp, merge_lanes<Round>(loss, state, 32));
  __syncthreads();
  const int warps = SplitMerge<Words>::warps;
  if (workspace.group == 1) {
    const State whole = merge_shared<Round, Loss, State>(loss, merge.of_warp, warps);
    __syncthreads();  // the next round writes where this one has read
    return whole;
  }
  if (warp == 0) {
    const WordsOf<State> words = to_words(merge_shared<Round, Loss, State>(loss, merge.of_warp, warps));
#pragma unroll
    for (int w = 0; w < count; ++w) {
      if (lane == w % 32) post_word(workspace.word<Words>(number, w, blockIdx.x), words.word[w], number);
    }
  }
  const int parts = (workspace.group + 31) / 32;
  if (warp < parts) {
    const int member = static_cast<int>(threadIdx.x);
    const int first = static_cast<int>(blockIdx.x) / workspace.group * workspace.group;
    State other = Loss::template identity<Round, 1>();
    if (member < workspace.group) other = await_state<State, Words>(workspace, number, first + member);
    __syncwarp();
    leave(merge.of_part, merge_lanes<Round>(loss, other, 32));
  }
  __syncthreads();
  return merge_shared<Round, Loss, State>(loss, merge.of_part, parts);
}

}  // namespace vocabloss::Impl

#endif
