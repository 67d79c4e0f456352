// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_ROW_SUMS_CUH
#define VOCABLOSS_IMPL_CUDA_ROW_SUMS_CUH

/// \file
/// \brief What a consumer thread has summed of a row so far, in one of two ways.
///
/// ExactRowSums runs the algebra of every loss: columns at the maximum are kept apart from those below. PlainRowSums
/// runs what concept.hpp offers to kernels that count instructions: all columns alike, and no branch. In a row that one
/// column decides that costs digits, and an infinite term spoils it; `merge` says so, and lanes are summed again.

#include <vocabloss/impl/cuda/merge_states.cuh>
#include <vocabloss/impl/cuda/piece_view.cuh>
#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>

namespace vocabloss::Impl {

/// `by_pieces`: for rows of which a lane takes so many columns that one float sum of them all would lose digits.
template <class Loss, class T, class Shape, int Round, bool by_pieces>
class PlainRowSums {
 public:
  using View = PieceView<Loss, T, Shape>;
  using State = typename Loss::template State<Round>;
  using Statistics = typename Loss::Statistics;

  template <bool ordinary>
  __device__ __forceinline__ void absorb(const Loss& loss, const Statistics& known, const View& piece) {
    piece.template for_vectors<ordinary>(piece.is_wide(),
                                         [&](auto count, int k) { absorb_vectors<count>(loss, known, piece, k); });
  }

  /// The warp's state, in every lane, but for the label.
  struct Merged {
    State state;
    unsigned bad_lanes;  ///< a bit for each: unless there are none, the state must not be used
    bool is_finite;      ///< no sum met an infinity
  };
  __device__ __forceinline__ Merged merge(const Loss& loss, const Statistics& known) {
    if constexpr (has.maxima) refer_to_one_maximum(loss);
    const loss::PlainSums<float> all = of_warp(sums_);
    const float any = (all.x.sum + all.t.sum) + all.weighted;
    return {loss.template from_plain<Round>(all, known), __ballot_sync(0xffffffffu, !is_lane_good(loss, all, known)),
            any - any == 0.0f};
  }
  /// This lane's sums, relative to the same maxima as all other lanes'; nothing, if it is one of `lanes`.
  __device__ __forceinline__ loss::PlainSums<float> sums_without(unsigned lanes) const {
    return lanes >> threadIdx.x % 32 & 1 ? sums_.emptied() : sums_;
  }

 private:
  using Word = WordOf<T>;
  static constexpr loss::RoundSums has = Loss::template round_sums<Round>;
  static constexpr bool has_max_t = Loss::streams == 2 && Loss::teacher_is_logits;

  __device__ __forceinline__ static loss::PlainSums<float> of_warp(loss::PlainSums<float> sums) {
    sums.x.sum = sum_of_warp(sums.x.sum);
    if constexpr (Loss::streams == 2) sums.t.sum = sum_of_warp(sums.t.sum);
    if constexpr (has.weighted) sums.weighted = sum_of_warp(sums.weighted);
    return sums;
  }
  __device__ __forceinline__ static float low() {
    float columns[Word::columns];
    Word::widen(Word::low, columns);
    return columns[0];
  }

  /// Whether the sum of the warp is good, as far as this lane is concerned: a column of its own that decides a stream
  /// is at most all of its sum.
  __device__ __forceinline__ bool is_lane_good(const Loss& loss, loss::PlainSums<float> all,
                                               const Statistics& known) const {
    bool is_small = true;
    if constexpr (has.maxima) {
      all.x.sum = loss::quotient(all.x.sum, sums_.x.sum);
      is_small = sums_.x.sum < has.most_of_lane;
    }
    if constexpr (has.maxima && has_max_t) {
      all.t.sum = loss::quotient(all.t.sum, sums_.t.sum);
      is_small = is_small && sums_.t.sum < has.most_of_lane;
    }
    return bool(int(is_small) & int(loss.template is_good<Round>(all, known, low())));  // no branch
  }

  template <int Count>
  __device__ __forceinline__ void absorb_vectors(const Loss& loss, const Statistics& known, const View& piece, int k) {
    HeldVectors<Count> held = piece.template load<Count>(k);
    piece.lower_others(held, k);
    if constexpr (has.maxima) refer_to_first(loss, held);
    const auto columns = piece.template pack<Count>(held, 0, k);
    if constexpr (by_pieces) {
      loss::PlainSums<float> part = sums_.emptied();
      loss.template sum_plainly<Round>(part, known, columns);
      sums_.add(part);
    } else {
      loss.template sum_plainly<Round>(sums_, known, columns);
    }
  }

  /// Sums are relative to the largest of the warp's first columns. None that follows is compared with it: most exceed
  /// it by little, and a lane where one does by far is not good.
  template <int Count>
  __device__ __forceinline__ void refer_to_first(const Loss& loss, const HeldVectors<Count>& held) {
    const bool is_first = sums_.x.is_of_nothing() || (has_max_t && sums_.t.is_of_nothing());
    constexpr bool is_whole_warp = Count == Shape::vectors;  // vectors that are taken one by one may not be all lanes'
    if (!(is_whole_warp ? __any_sync(0xffffffffu, is_first) : is_first)) return;
    float max_x = largest_column<T>(held.x), max_t = has_max_t ? largest_column<T>(held.t) : 0.0f;
    if constexpr (is_whole_warp) {
      max_x = largest_of_warp(max_x);
      if constexpr (has_max_t) max_t = largest_of_warp(max_t);
    }
    constexpr bool all_is_relative = Loss::streams == 1 || has_max_t;
    if (all_is_relative && sums_.x.is_of_nothing() && (!has_max_t || sums_.t.is_of_nothing())) {
      sums_ = {};  // what has been added is infinitely far below
      sums_.x.maximum = fmaxf(sums_.x.maximum, max_x);
      if constexpr (has_max_t) sums_.t.maximum = fmaxf(sums_.t.maximum, max_t);
    } else {
      loss.template raise_plainly<Round>(sums_, max_x, max_t);
    }
  }
  /// Lanes whose first vectors were taken one by one have maxima of their own.
  __device__ __forceinline__ void refer_to_one_maximum(const Loss& loss) {
    bool is_same = sums_.x.maximum == __shfl_sync(0xffffffffu, sums_.x.maximum, 0);
    if constexpr (has_max_t) is_same &= sums_.t.maximum == __shfl_sync(0xffffffffu, sums_.t.maximum, 0);
    if (__all_sync(0xffffffffu, is_same)) return;
    loss.template raise_plainly<Round>(sums_, largest_of_warp(sums_.x.maximum),
                                       has_max_t ? largest_of_warp(sums_.t.maximum) : 0.0f);
  }

  loss::PlainSums<float> sums_;
};

template <class Loss, class T, class Shape, int Round>
class ExactRowSums {
 public:
  using View = PieceView<Loss, T, Shape>;
  using State = typename Loss::template State<Round>;
  using Statistics = typename Loss::Statistics;

  /// Neighbours' columns in the slot are neutral by now.
  template <bool ordinary>
  __device__ __forceinline__ void absorb(const Loss& loss, const Statistics& known, const View& piece, int label) {
    piece.template for_vectors<ordinary>(
        piece.is_full(), [&](auto count, int k) { absorb_vectors<count>(loss, known, piece, k, label); });
  }
  /// Instead of nothing: plain sums.
  __device__ __forceinline__ void begin_with(const Loss& loss, const loss::PlainSums<float>& sums,
                                             const Statistics& known) {
    static_assert(Shape::lanes == 1);
    state_ = loss.template from_plain<Round>(sums, known);
    max_x_ = sums.x.maximum;
    if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) max_t_ = sums.t.maximum;
  }
  /// The same word by word, in little code and few registers, and without a label.
  template <class Piece>
  __device__ __forceinline__ void absorb_words(const Loss& loss, const Statistics& known, const Piece& piece) {
#pragma unroll 1
    for (int word = 0; piece.has(word / 4); ++word) {
      const auto columns = piece.word(word / 4, word % 4);
      const float max_x = loss::largest(columns.x);
      float max_t = max_t_;
      if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) max_t = loss::largest(columns.t);
      if (max_x > max_x_ || max_t > max_t_) {
        max_x_ = fmaxf(max_x_, max_x);
        max_t_ = fmaxf(max_t_, max_t);
        loss.template raise<Round>(state_, max_x_, max_t_);
      }
      loss.template accumulate<Round>(state_, known, columns, no_label);
    }
  }

  /// A word, or none, of each lane, where all lanes' maxima are the same; they still are.
  template <class Word>
  __device__ __forceinline__ void absorb_of_warp(const Loss& loss, const Statistics& known, bool has_word,
                                                 const Word& columns) {
    const float max_x = largest_of_warp(has_word ? fmaxf(max_x_, loss::largest(columns.x)) : max_x_);
    float max_t = max_t_;
    if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) {
      max_t = largest_of_warp(has_word ? fmaxf(max_t_, loss::largest(columns.t)) : max_t_);
    }
    if (max_x > max_x_ || max_t > max_t_) {
      max_x_ = max_x;
      max_t_ = max_t;
      loss.template raise<Round>(state_, max_x_, max_t_);
    }
    if (has_word) loss.template accumulate<Round>(state_, known, columns, no_label);
  }

  /// The warp's state, in every lane.
  __device__ __forceinline__ State merge(const Loss& loss) {
    return merge_warp<Round, Shape::lanes>(loss, state_, max_x_, max_t_);
  }
  /// The same where all lanes' maxima are the same.
  __device__ __forceinline__ State merge_equals(const Loss& loss) {
    static_assert(Shape::lanes == 1);
    const State state = Loss::template collapse<Round, Shape::lanes>(state_);
    if constexpr (requires { loss.template add<Round>(state, state); }) {
      return add_states<Round>(loss, state, 32);
    } else {
      return merge_lanes<Round>(loss, state, 32);
    }
  }

 private:
  template <int Count>
  __device__ __forceinline__ void absorb_vectors(const Loss& loss, const Statistics& known, const View& piece, int k,
                                                 int label) {
    const HeldVectors<Count> held = piece.template load<Count>(k);
    max_x_ = fmaxf(max_x_, largest_column<T>(held.x));
    if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) max_t_ = fmaxf(max_t_, largest_column<T>(held.t));
    loss.template raise<Round>(state_, max_x_, max_t_);
    // Where nobody asks where the columns are, vectors make one pack, so that what the algebra does once a pack is done
    // less.
    constexpr int wanted = Loss::needs_label ? 1 : Shape::vectors_in_pack, together = Count < wanted ? Count : wanted;
#pragma unroll
    for (int i = 0; i < Count; i += together) {
      loss.template accumulate<Round>(state_, known, piece.template pack<together>(held, i, k + i), label);
    }
  }

  typename Loss::template State<Round, Shape::lanes> state_ = Loss::template identity<Round, Shape::lanes>();
  float max_x_ = loss::empty_maximum<float>(), max_t_ = loss::empty_maximum<float>();
};

}  // namespace vocabloss::Impl

#endif
