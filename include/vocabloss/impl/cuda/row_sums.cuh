// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_ROW_SUMS_CUH
#define VOCABLOSS_IMPL_CUDA_ROW_SUMS_CUH

/// \file
/// \brief What a consumer thread has summed of a row so far, in one of two ways.
///
/// ExactSums runs the algebra of every loss: columns at the maximum are kept apart from those below. PlainSums runs
/// what concept.hpp offers to kernels that count instructions: all columns alike, and no branch. In a row that one
/// column decides that costs digits, and an infinite term spoils it; `merge` says so, and the row is summed again.

#include <vocabloss/impl/cuda/merge_block.cuh>
#include <vocabloss/impl/cuda/piece_view.cuh>
#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>

namespace vocabloss::Impl {

template <class Loss, class T, class Shape, int Round>
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
    loss::PlainSums<float> sums;
    State state;
    bool is_good;    ///< else it must not be used
    bool is_finite;  ///< no sum met an infinity
  };
  __device__ __forceinline__ Merged merge(const Loss& loss, const Statistics& known) {
    if constexpr (has.maxima) {
      const float max_t = has_max_t ? largest_of_warp(Word::value(highest_t_)) : 0.0f;
      loss.template raise_plainly<Round>(sums_, largest_of_warp(Word::value(highest_x_)), max_t);
    }
    const loss::PlainSums<float> all = of_warp(sums_);
    const float any = (all.x.sum + all.t.sum) + all.weighted;
    return {all, loss.template from_plain<Round>(all, known), loss.template is_good<Round>(all, known, low()),
            any - any == 0.0f};
  }

  /// After a merge that was not good: the lanes to sum exactly. All; or, where nothing but digits is wrong, those with
  /// a column that decides a stream. By the stricter rule, whichever is the loss's: a lane too many does no harm.
  __device__ __forceinline__ unsigned lanes_to_sum_again(const Loss& loss, loss::PlainSums<float> of_warp,
                                                         const Statistics& known) const {
    const bool decides_x = !of_warp.x.keeps_digits_of_difference() && sums_.x.sum >= 0.5f;
    const bool decides_t = Loss::streams == 2 && !of_warp.t.keeps_digits_of_difference() && sums_.t.sum >= 0.5f;
    of_warp.x.sum += 2;
    of_warp.t.sum += 2;
    if (!has.maxima || !loss.template is_good<Round>(of_warp, known, low())) return ~0u;
    return __ballot_sync(0xffffffffu, decides_x || decides_t);
  }
  /// This lane's sums, relative to the warp's maxima; nothing, if it is one of `lanes`.
  __device__ __forceinline__ loss::PlainSums<float> sums_without(unsigned lanes) const {
    loss::PlainSums<float> sums = sums_;
    if (lanes >> threadIdx.x % 32 & 1) sums.x.sum = sums.t.sum = sums.weighted = 0;
    return sums;
  }

 private:
  using Word = WordOf<T>;
  using Maximum = typename Word::Maximum;
  static constexpr loss::KeptApart has = Loss::template kept_apart<Round>;
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

  template <int Count>
  __device__ __forceinline__ void absorb_vectors(const Loss& loss, const Statistics& known, const View& piece, int k) {
    HeldVectors<Count> held = piece.template load<Count>(k);
    piece.lower_others(held, k);
    if constexpr (has.maxima) notice(loss, held);
    loss.template sum_plainly<Round>(sums_, known, piece.template pack<Count>(held, 0, k));
  }

  /// Sums are relative to the largest of the warp's first columns, and are raised only where one is far beyond that
  /// (see PlainStream::reach). The true maxima are known in the end.
  template <int Count>
  __device__ __forceinline__ void notice(const Loss& loss, const HeldVectors<Count>& held) {
    highest_x_ = largest_columns<T>(held.x, highest_x_);
    bool is_far = Word::exceeds(highest_x_, Word::as_limit(sums_.x.maximum + loss.plain_reach(0)));
    if constexpr (has_max_t) {
      highest_t_ = largest_columns<T>(held.t, highest_t_);
      is_far = is_far || Word::exceeds(highest_t_, Word::as_limit(sums_.t.maximum + loss.plain_reach(1)));
    }
    constexpr bool is_whole_warp = Count == Shape::vectors;  // vectors that are taken one by one may not be all lanes'
    if (!(is_whole_warp ? __any_sync(0xffffffffu, is_far) : is_far)) return;
    float max_x = Word::value(highest_x_), max_t = has_max_t ? Word::value(highest_t_) : 0.0f;
    if constexpr (is_whole_warp) {
      max_x = largest_of_warp(max_x);
      if constexpr (has_max_t) max_t = largest_of_warp(max_t);
    }
    loss.template raise_plainly<Round>(sums_, max_x, max_t);
  }

  loss::PlainSums<float> sums_;
  Maximum highest_x_ = Word::as_limit(-INFINITY), highest_t_ = highest_x_;
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
  /// Instead of nothing: plain sums, of whose streams the maxima are those of all that follows.
  __device__ __forceinline__ void begin_with(const Loss& loss, const loss::PlainSums<float>& sums,
                                             const Statistics& known) {
    static_assert(Shape::lanes == 1);
    state_ = loss.template from_plain<Round>(sums, known);
    max_x_ = sums.x.maximum;
    if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) max_t_ = sums.t.maximum;
  }
  /// The same word by word, in little code and few registers, and without a label. `first`, `step`: words that this
  /// lane takes of the piece's vectors.
  template <class Piece>
  __device__ __forceinline__ void absorb_words(const Loss& loss, const Statistics& known, const Piece& piece, int first,
                                               int step) {
#pragma unroll 1
    for (int word = first; piece.has(word / 4); word += step) {
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

  /// The warp's state, in every lane.
  __device__ __forceinline__ State merge(const Loss& loss) {
    return merge_warp<Round, Shape::lanes>(loss, state_, max_x_, max_t_);
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
