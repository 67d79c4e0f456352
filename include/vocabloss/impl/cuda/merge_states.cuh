// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_MERGE_STATES_CUH
#define VOCABLOSS_IMPL_CUDA_MERGE_STATES_CUH

/// \file
/// \brief The merge of a few states that lie in the lanes of one warp, as fast as its latency allows: a row waits for
/// it, and between GPUs two rows of every cluster may.

#include <vocabloss/impl/cuda/merge_block.cuh>
#include <vocabloss/impl/distributed/state_words.hpp>

namespace vocabloss::Impl {

/// Adds those words of a state that are sums over lanes 0 .. lanes - 1 (a power of two), of which any other lanes hold
/// copies: so each half of the warp adds half of the words.
template <class Words, class State>
__device__ __forceinline__ State add_lanes(const State& state, int lanes) {
  constexpr int most = (words_of<State> + 1) / 2;
  WordsOf<State> words = to_words(state);
  const int of_lower = (Words::sums() + 1) / 2;
  const bool is_upper = threadIdx.x & 16;
  float part[most] = {}, other[most] = {};
  int k = 0;
#pragma unroll
  for (int w = 0; w < words_of<State>; ++w) {
    if (Words::is_maximum(w)) continue;
    if (k < of_lower) {
      part[k] = other[k] = words.word[w];
    } else {
      other[k - of_lower] = is_upper ? part[k - of_lower] : words.word[w];
      part[k - of_lower] = is_upper ? words.word[w] : part[k - of_lower];
    }
    ++k;
  }
  if (lanes == 32) {  // no copies: the halves give each other what they do not add
#pragma unroll
    for (int j = 0; j < most; ++j) {
      if (j < of_lower) part[j] += __shfl_xor_sync(0xffffffffu, other[j], 16);
    }
    lanes = 16;
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int j = 0; j < most; ++j) {
      if (j < of_lower) part[j] += __shfl_xor_sync(0xffffffffu, part[j], distance);
    }
  }
#pragma unroll
  for (int j = 0; j < most; ++j) {
    if (j < of_lower) other[j] = __shfl_xor_sync(0xffffffffu, part[j], 16);
  }
  k = 0;
#pragma unroll
  for (int w = 0; w < words_of<State>; ++w) {
    if (Words::is_maximum(w)) continue;
    words.word[w] = (k < of_lower) == is_upper ? other[k % of_lower] : part[k % of_lower];
    ++k;
  }
  return from_words(words);
}

/// The same of states whose maxima are equal.
template <int Round, class Loss, class State>
__device__ __forceinline__ State add_states(const Loss& loss, State state, int lanes) {
  using Words = StateWords<Loss, Round>;
  if (Words::is_maxima_and_sums()) return add_lanes<Words>(state, lanes);
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    state = loss.template add<Round>(state, from_other_lane(state, distance));
  }
  return state;
}

/// Merges the states of lanes 0 .. lanes - 1 (a power of two), of which the other lanes hold copies. Every lane ends
/// with the same bits, found in an order that depends on nothing but `lanes`.
///
/// With the maxima of the warp known, every lane rescales once, and the rest is addition: three levels take 250 cycles
/// instead of 700 (reverse KL).
template <int Round, class Loss, class State>
__device__ __forceinline__ State merge_states(const Loss& loss, State state, int lanes) {
  if constexpr (requires { loss.template add<Round>(state, state); }) {
    using Words = StateWords<Loss, Round>;
    const WordsOf<State> words = to_words(state);
    float maxima[2] = {0.0f, 0.0f};
    int found = 0;
#pragma unroll
    for (int w = 0; w < words_of<State>; ++w) {
      if (Words::is_maximum(w) && found < 2) maxima[found++] = largest_of_warp(words.word[w]);
    }
    if (found > 0) loss.template raise<Round>(state, maxima[0], maxima[1]);
    return add_states<Round>(loss, state, lanes);
  } else {
    return merge_lanes<Round>(loss, state, lanes);
  }
}

}  // namespace vocabloss::Impl

#endif
