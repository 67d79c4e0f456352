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

  __device__ __forceinline__ void absorb(const Loss& loss, const Statistics& known, const View& piece) {
    piece.for_vectors(piece.is_wide(), [&](auto count, int k) { absorb_vectors<count>(loss, known, piece, k); });
  }

  /// The warp's state, in every lane, but for the label; false if it must not be used.
  __device__ __forceinline__ bool merge(const Loss& loss, const Statistics& known, State& merged) {
    if constexpr (has.maxima) {
      const float max_t = has_max_t ? largest_of_warp(sums_.t.maximum) : 0.0f;
      loss.template raise_plainly<Round>(sums_, largest_of_warp(sums_.x.maximum), max_t);
    }
    sums_.x.sum = sum_of_warp(sums_.x.sum);
    if constexpr (Loss::streams == 2) sums_.t.sum = sum_of_warp(sums_.t.sum);
    if constexpr (has.weighted) sums_.weighted = sum_of_warp(sums_.weighted);
    float low[WordOf<T>::columns];
    WordOf<T>::widen(WordOf<T>::low, low);
    merged = loss.template from_plain<Round>(sums_, known);
    return loss.template is_good<Round>(sums_, known, low[0]);
  }

 private:
  static constexpr loss::KeptApart has = Loss::template kept_apart<Round>;
  static constexpr bool has_max_t = Loss::streams == 2 && Loss::teacher_is_logits;

  template <int Count>
  __device__ __forceinline__ void absorb_vectors(const Loss& loss, const Statistics& known, const View& piece, int k) {
    HeldVectors<Count> held = piece.template load<Count>(k);
    piece.lower_others(held, k);
    if constexpr (has.maxima) {
      loss.template raise_plainly<Round>(sums_, largest_column<T>(held.x),
                                         has_max_t ? largest_column<T>(held.t) : 0.0f);
    }
    loss.template sum_plainly<Round>(sums_, known, piece.template pack<Count>(held, 0, k));
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
  __device__ __forceinline__ void absorb(const Loss& loss, const Statistics& known, const View& piece, int label) {
    piece.for_vectors(piece.is_full(), [&](auto count, int k) { absorb_vectors<count>(loss, known, piece, k, label); });
  }
  /// The same word by word, in little code and few registers, and without a label.
  __device__ __forceinline__ void absorb_again(const Loss& loss, const Statistics& known, const View& piece) {
    for (int k = 0; piece.has(k); ++k) {
#pragma unroll 1
      for (int word = 0; word < 4; ++word) {
        const auto columns = piece.word(k, word);
        max_x_ = fmaxf(max_x_, loss::largest(columns.x));
        if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) max_t_ = fmaxf(max_t_, loss::largest(columns.t));
        loss.template raise<Round>(state_, max_x_, max_t_);
        loss.template accumulate<Round>(state_, known, columns, no_label);
      }
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
