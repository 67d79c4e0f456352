// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_MERGE_BLOCK_CUH
#define VOCABLOSS_IMPL_CUDA_MERGE_BLOCK_CUH

/// \file
/// \brief The algebra's merge over the lanes of a warp. States travel as arrays of float words.
///
/// A block is merged in two such steps: every consumer warp over its lanes, then the exchange warp over the states that
/// the consumer warps left in shared memory (one a lane).

#include <cstring>
#include <type_traits>

namespace vocabloss::Impl {

/// Words of a state, statistics or gradient row: all are made of floats only.
template <class State>
inline constexpr int words_of = static_cast<int>(sizeof(State) / sizeof(float));

template <class State>
struct alignas(words_of<State> % 4 == 0 ? 16 : 4) WordsOf {
  static_assert(std::is_trivially_copyable_v<State> && sizeof(State) % sizeof(float) == 0);
  float word[words_of<State>];
};

template <class State>
__device__ __forceinline__ WordsOf<State> to_words(const State& state) {
  WordsOf<State> words;
  memcpy(&words, &state, sizeof words);
  return words;
}

template <class State>
__device__ __forceinline__ State from_words(const WordsOf<State>& words) {
  State state;
  memcpy(&state, &words, sizeof state);
  return state;
}

template <class State>
__device__ __forceinline__ State from_other_lane(const State& state, int distance) {
  WordsOf<State> words = to_words(state);
#pragma unroll
  for (int w = 0; w < words_of<State>; ++w) words.word[w] = __shfl_xor_sync(0xffffffffu, words.word[w], distance);
  return from_words(words);
}

/// Merges the states of lanes 0 .. lanes - 1 (a power of two). Every lane below `lanes` ends with the merged state,
/// found in the same order of merges, so that a commutative merge gives the same bits in all of them.
template <int Round, class Loss, class State>
__device__ __forceinline__ State merge_lanes(const Loss& loss, State state, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    state = loss.template merge<Round>(state, from_other_lane(state, distance));
  }
  return state;
}

/// The largest value of a warp that is not NaN.
__device__ __forceinline__ float largest_of_warp(float value) {
  // One instruction finds the largest integer of a warp; floats compare as integers once negative ones are mirrored.
  const int bits = __float_as_int(value);
  const int ordered = __reduce_max_sync(0xffffffffu, bits ^ ((bits >> 31) & 0x7fffffff));
  return __int_as_float(ordered ^ ((ordered >> 31) & 0x7fffffff));
}

/// The same in every lane, in the same order of additions.
__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/// Merges the states of a warp whose lanes hold the partial states of one row. With the maxima of the warp known, every
/// lane rescales once and the rest is addition: 6 instructions a level instead of some 40 (reverse KL).
template <int Round, int Lanes, class Loss, class State>
__device__ __forceinline__ auto merge_warp(const Loss& loss, State& state, float max_x, float max_t) {
  using Merged = typename Loss::template State<Round>;
  if constexpr (requires(Merged merged) { loss.template add<Round>(merged, merged); }) {
    const float warp_max_t = Loss::streams == 2 && Loss::teacher_is_logits ? largest_of_warp(max_t) : 0.0f;
    loss.template raise<Round>(state, largest_of_warp(max_x), warp_max_t);
    Merged merged = Loss::template collapse<Round, Lanes>(state);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      merged = loss.template add<Round>(merged, from_other_lane(merged, distance));
    }
    return merged;
  } else {
    return merge_lanes<Round>(loss, Loss::template collapse<Round, Lanes>(state), 32);
  }
}

}  // namespace vocabloss::Impl

#endif
