// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CONSUMER_CUH
#define VOCABLOSS_IMPL_CUDA_CONSUMER_CUH

/// \file
/// \brief The consumer warps: statistics of the pieces of a row, then its gradient.
///
/// A row passes through stages: one for each round of statistics, and the last, which writes the gradient. Between two
/// stages the row's statistics are exchanged, and somebody has to wait. A warp therefore sums some pieces of the next
/// row ahead, as far as the ring has room for them. Pieces of rows 0 and 1 in a ring with room for six, two ahead:
///
///     sum 0a 0b 0c 0d | sum 1a 1b | gradient 0a 0b 0c 0d | sum 1c 1d | sum 2a 2b | gradient 1a 1b 1c 1d | ...
///                     ^ row 0 is sent                     row 1 is sent ^
///
/// A loss of two rounds has two exchanges to wait for, and sums a part ahead at each. Warps never wait for one another:
/// each leaves its merged state to the exchange warp and goes on.
///
/// Where a block has groups of consumers, rows are dealt to them in turn, and all of this goes on in each.
///
/// A pass that keeps no row for a later stage streams: a piece's slot is free once it is summed, so that a row may be
/// longer than the ring, and one block takes rows of any length.

#include <vocabloss/impl/cuda/consumer_ring.cuh>
#include <vocabloss/impl/cuda/piece_gradient.cuh>
#include <vocabloss/impl/cuda/row_sums.cuh>

#include <climits>

namespace vocabloss::Impl {

template <class Loss, class T, Pass pass, class Shape>
struct Consumer {
  using Ring = ConsumerRing<Loss, T, Shape>;
  using Slice = SliceOfRow;
  using Statistics = typename Loss::Statistics;
  static constexpr bool streams_rows = !keeps_rows<Loss, Shape>(pass);
  static constexpr int groups = Shape::groups;
  static_assert(groups == 1 || Loss::rounds == 1);
  static_assert(groups * streamed_rows_unfinished < rows_in_flight);
  /// Where a thread may have any number of columns of a row.
  static constexpr bool sums_by_pieces = streams_rows && !Shape::reads_again;
  template <int Round>
  using Sums = std::conditional_t<loss::SumsPlainly<Loss, Round>, PlainRowSums<Loss, T, Shape, Round, sums_by_pieces>,
                                  ExactRowSums<Loss, T, Shape, Round>>;

  const Loss& loss;
  Ring ring;

  __device__ void run() {
    if constexpr (pass == Pass::backward) {
      run_backward();
    } else if constexpr (Shape::reads_again) {
      run_rereading();
    } else if constexpr (streams_rows) {
      run_streaming();
    } else {
      run_keeping();
    }
  }

 private:
  /// A row of which some pieces, or none, have been summed.
  template <int Round>
  struct Gathering {
    int pieces = 0;
    Sums<Round> sums{};
    RingCursor cursor{};  ///< of the next one
  };

  __device__ __forceinline__ void run_keeping() {
    Gathering<0> first{.cursor = before_first_row()};
    for (int i = Shape::group(); gather_row(i, first); i += groups) {
      ring.turn_to(i);
      wait_for_statistics(i);
      if constexpr (pass == Pass::forward_backward) {
        RingCursor gradient = start_of_row_before(first);
        differentiate(i, ring.slice_of(i), gradient);
      }
    }
  }

  /// Past the other groups' rows, which lie between two of this one's.
  __device__ __forceinline__ void skip_others(RingCursor& cursor) const {
    if constexpr (groups > 1) cursor.advance_by((groups - 1) * ring.launch.slices.pieces, ring.launch.slots);
  }
  /// Where the group's row before its first one would end.
  __device__ __forceinline__ RingCursor before_first_row() const {
    if constexpr (groups == 1) return {};
    const int back = (groups - 1 - Shape::group()) * ring.launch.slices.pieces;
    return back == 0 ? RingCursor{} : RingCursor{ring.launch.slots - back, 1};
  }
  /// Of the group's row before the one that is being summed.
  __device__ __forceinline__ RingCursor start_of_row_before(const Gathering<0>& row) const {
    const int pieces = ring.launch.slices.pieces;
    const int between = groups > 1 && row.pieces > 0 ? (groups - 1) * pieces : 0;
    return row.cursor.before(pieces + between + row.pieces, ring.launch.slots);
  }

  /// What is left of row i, and then, while its states are on their way, a part of the next. False: there is no row i.
  /// Loops over the parts, so that `gather_until` is compiled once; one for both kinds of losses made those of one
  /// round 1 to 2 % slower at 8192 columns.
  __device__ __forceinline__ bool gather_row(int i, Gathering<0>& first) {
    const int pieces = ring.launch.slices.pieces, ahead = ring.launch.ahead;
    if constexpr (Loss::rounds == 1) {
#pragma unroll 1
      for (int part = 0; part < 2; ++part) {
        const bool exists = gather_until(part ? ahead : pieces, i + part * groups, first);
        if (part) break;
        if (!exists) return false;
        first.pieces = 0;
      }
    } else {
      // Each of two exchanges gets a share to wait with. But the first of a row that is summed before the gradient of
      // the one before passes during that gradient.
      const int ahead_at_first = ahead < pieces ? ahead / 2 : 0;
#pragma unroll 1
      for (int part = 0; part < 3; ++part) {
        const int target = part == 0 ? pieces : part == 1 ? ahead_at_first : ahead;
        const bool exists = gather_until(target, i + (part > 0), first);
        if (part == 2) break;
        if (part == 0) {
          if (!exists) return false;
          first.pieces = 0;
        } else {
          gather_second(i, start_of_row_before(first));
        }
      }
    }
    return true;
  }

  __device__ __forceinline__ void run_streaming() {
    constexpr int unfinished = groups * streamed_rows_unfinished;
    RingCursor cursor = before_first_row();
    for (int i = Shape::group();; i += groups) {
      skip_others(cursor);
      ring.turn_to(i);
      ring.wait_until_full(cursor);
      const Slice slice = ring.slice_of(i);
      if (!slice.exists()) return;
      gather_streaming<0>(i, i, {}, slice, cursor);
      if (i >= unfinished) wait_for_statistics(i - unfinished);
    }
  }

  /// In the producer's order: the first stage of a row, the second of the one before, and so on, so that every exchange
  /// has another row's stages to pass in.
  __device__ __forceinline__ void run_rereading() {
    static_assert(!Loss::needs_label);
    RingCursor cursor;
    int rows = INT_MAX;  // until the last claim is seen
    int sweep = 0;       // over a slice
    const int slices = ring.launch.in_turn;
    const auto for_slices = [&](int i, auto&& action) {
      for (int s = 0; s < slices; ++s) {
        ring.wait_until_full(cursor);
        action(i * slices + s, ring.slice_of(sweep++));
      }
    };
    for (int i = 0; i - Loss::rounds < rows; ++i) {
      if (i < rows && ring.claims.wait_for(i) < 0) rows = i;
      if (i < rows) {
        for_slices(i, [&](int unit, const Slice& slice) { gather_streaming<0>(i, unit, {}, slice, cursor); });
      }
      if (Loss::rounds == 2 && i > 0 && i <= rows) {
        wait_for_first_round(i - 1);
        const Statistics& known = ring.shared.posted[RowSlot(i - 1).index].statistics;
        for_slices(i - 1, [&](int unit, const Slice& slice) {
          gather_streaming<Loss::rounds - 1>(i - 1, unit, known, slice, cursor);
        });
      }
      if (i >= Loss::rounds) {
        wait_for_statistics(i - Loss::rounds);
        for_slices(i - Loss::rounds, [&](int, const Slice& slice) { differentiate(i - Loss::rounds, slice, cursor); });
      }
    }
  }

  /// The exchange warp loads the statistics that were saved of rows that are asked for.
  __device__ __forceinline__ void run_backward() {
    constexpr int rows_ahead = 3 * groups;
    RingCursor gradient = before_first_row();
    for (int i = Shape::group(); i < rows_ahead; i += groups) ask_for_statistics(i);
    for (int i = Shape::group();; i += groups) {
      skip_others(gradient);
      ring.turn_to(i);
      ring.wait_until_full(gradient);
      const Slice slice = ring.slice_of(i);
      if (!slice.exists()) return;
      ask_for_statistics(i + rows_ahead);
      wait_for_statistics(i);
      differentiate(i, slice, gradient);
    }
  }
  __device__ __forceinline__ void ask_for_statistics(int i) const {
    if (ring.thread % 32 == 0) arrive(&ring.shared.first.gathered[RowSlot(i).index]);
  }
  __device__ __forceinline__ void wait_for_statistics(int i) const {
    const RowSlot use(i);
    wait(&ring.shared.template round<Loss::rounds - 1>().ready[use.index], use.parity);
  }

  __device__ __forceinline__ void wait_for_first_round(int i) const {
    const RowSlot use(i);
    wait(&ring.shared.first.ready[use.index], use.parity);
  }

  // ---- statistics ---------------------------------------------------------------------------------------------------

  /// Sums pieces of the i-th claim's row up to `target` of them; leaves the warp's state once it has all. Nothing is
  /// left to do where they have been summed before. False: there is no such row.
  __device__ __forceinline__ bool gather_until(int target, int i, Gathering<0>& row) {
    if (target <= row.pieces) return true;
    RingCursor start = row.cursor;
    if (row.pieces == 0) skip_others(start);
    ring.turn_to(i);
    ring.wait_until_full(start);
    const Slice slice = ring.slice_of(i);
    if (!slice.exists()) return false;
    row.cursor = start;
    sum<0, true>(row.sums, {}, i, slice, row.pieces, target, row.cursor);
    row.pieces = target;
    if (target == ring.launch.slices.pieces) {
      leave_kept<0>(i, row.sums, {}, slice, row.cursor);
      row.sums = Sums<0>{};
    }
    return true;
  }

  /// The second round, with the statistics of the first.
  __device__ __forceinline__ void gather_second(int i, RingCursor cursor) {
    ring.turn_to(i);
    wait_for_first_round(i);
    const Statistics& known = ring.shared.posted[RowSlot(i).index].statistics;
    const Slice slice = ring.slice_of(i);
    Sums<1> sums;
    sum<1, false>(sums, known, i, slice, 0, ring.launch.slices.pieces, cursor);
    leave_kept<1>(i, sums, known, slice, cursor);
  }

  /// Pieces from `p` up to `end`. `is_first`: nobody has waited for them yet.
  template <int Round, bool is_first>
  __device__ __forceinline__ void sum(Sums<Round>& sums, const Statistics& known, int i, const Slice& slice, int p,
                                      int end, RingCursor& cursor) {
    ring.walk(slice, p, end, cursor, [&](auto ordinary, const RingCursor& at, int piece, bool) {
      take<Round, is_first, ordinary()>(sums, known, i, slice, at, piece);
    });
  }
  template <int Round, bool is_first, bool ordinary>
  __device__ __forceinline__ void take(Sums<Round>& sums, const Statistics& known, int i, const Slice& slice,
                                       const RingCursor& at, int p) {
    if constexpr (ordinary) {
      if (is_first) ring.wait_until_full(at);
    } else {
      if (is_first && p < ring.launch.slices.pieces) ring.wait_until_full(at);
      if (is_first && slice.odd & Slice::shifted) ring.shift_teacher(i, slice, p, at);
      if (!loss::SumsPlainly<Loss, Round> && slice.odd & Slice::ragged) ring.neutralise(slice, p, at);
    }
    const auto piece = ring.template view<ordinary>(slice, at, p);
    if constexpr (loss::SumsPlainly<Loss, Round>) {
      sums.template absorb<ordinary>(loss, known, piece);
    } else {
      sums.template absorb<ordinary>(loss, known, piece, Loss::needs_label ? ring.shared.label[at.slot] : no_label);
    }
  }

  /// All pieces of a slice, whose slots are free as soon as they are summed. `unit`: the number of the state among
  /// those that the warp leaves.
  template <int Round>
  __device__ __forceinline__ void gather_streaming(int i, int unit, const Statistics& known, const Slice& slice,
                                                   RingCursor& cursor) {
    const int label_piece = Loss::needs_label ? ring.label_piece(slice, cursor) : -1;
    float label_logit = 0;
    Sums<Round> sums;
    ring.walk(slice, 0, ring.launch.slices.pieces, cursor,
              [&](auto ordinary, const RingCursor& at, int p, bool is_last) {
                take<Round, true, ordinary()>(sums, known, i, slice, at, p);
                if (Loss::needs_label && p == label_piece) label_logit = ring.label_logit(slice, at, p);
                if (is_last) ring.release(at, !ordinary && slice.odd != 0);
              });
    leave<Round>(
        unit, sums, known, slice, label_logit, [] {}, [&](int p) { return ring.stored(i, slice, p); });
  }

  /// Of a row that is in the ring. `end`: the cursor past its last piece.
  template <int Round>
  __device__ __forceinline__ void leave_kept(int i, Sums<Round>& sums, const Statistics& known, const Slice& slice,
                                             const RingCursor& end) {
    const int pieces = ring.launch.slices.pieces, slots = ring.launch.slots;
    const RingCursor start = end.before(pieces, slots);
    const auto place_of = [&](int p) {
      RingCursor at = start;
      at.slot += min(p, pieces - 1);
      if (at.slot >= slots) at.slot -= slots;
      return at;
    };
    float label_logit = 0;
    if constexpr (Loss::needs_label) {
      const int p = ring.label_piece(slice, start);
      if (p >= 0) label_logit = ring.label_logit(slice, place_of(p), p);
    }
    const auto prepare = [&] {
      if (!(slice.odd & Slice::ragged)) return;
      const int end = pieces + (ring.has_tail(slice) ? 1 : 0);
      for (int p = 0; p < end; ++p) ring.neutralise(slice, p, place_of(p));
      __syncwarp();
    };
    leave<Round>(i, sums, known, slice, label_logit, prepare,
                 [&](int p) { return ring.template view<false>(slice, place_of(p), p); });
    if constexpr (pass == Pass::forward && Round == Loss::rounds - 1) {
      for (int p = 0; p < pieces; ++p) ring.release(place_of(p), slice.odd != 0);
    }
  }

  /// The warp's state of a whole row, for the exchange warp. `piece_again(p)`: a piece, for another look at it, once
  /// `prepare` has been called.
  template <int Round, class Prepare, class PieceAgain>
  __device__ __forceinline__ void leave(int i, Sums<Round>& sums, const Statistics& known, const Slice& slice,
                                        float label_logit, Prepare&& prepare, PieceAgain&& piece_again) {
    typename Loss::template State<Round> merged;
    SumsNote note{false, true};
    if constexpr (loss::SumsPlainly<Loss, Round>) {
      const auto plain = sums.merge(loss, known);
      merged = plain.state;
      if (plain.bad_lanes != 0) {
        prepare();
        merged = sum_again<Round>(sums, plain.bad_lanes, known, slice, piece_again);
      }
      if constexpr (Loss::needs_label) loss.note_label(merged, label_logit);
      // A column that decides the row decides its lane as well, if this round has the maxima.
      note = {plain.is_finite, Loss::rounds > 1 || plain.bad_lanes != 0};
    } else {
      merged = sums.merge(loss);
    }
    if (ring.thread % 32 == 0) {
      auto& buffers = ring.shared.template round<Round>();
      const int use = RowSlot(i).index, warp = ring.thread / 32;
      if (Shape::reads_again && i >= rows_in_flight) wait(&buffers.exchanged[use], RowSlot(i - rows_in_flight).parity);
      buffers.warp_state[use][warp] = to_words(merged);
      if constexpr (Round == Loss::rounds - 1) ring.shared.note[use][warp] = note;
      arrive(&buffers.gathered[use]);
    }
  }

  /// `lanes` the exact way, but for the label, where the plain one will not do. Mostly it is one, which holds the
  /// column that decides the row: then all lanes share its words, and the other lanes' plain sums stand. The other
  /// warps wait for this one meanwhile.
  template <int Round, class PieceAgain>
  __device__ __forceinline__ auto sum_again(const Sums<Round>& plain, unsigned lanes, const Statistics& known,
                                            const Slice& slice, PieceAgain&& piece_again) {
    ExactRowSums<Loss, T, Shape, Round> sums;
    const int pieces = ring.launch.slices.pieces, last = ring.has_tail(slice) ? pieces : pieces - 1;
    if (lanes == ~0u) {
#pragma unroll 1
      for (int p = 0; p <= last; ++p) sums.absorb_words(loss, known, piece_again(p));
      return sums.merge(loss);
    }
    sums.begin_with(loss, plain.sums_without(lanes), known);
    // The lane's words in a row: of its vectors in each piece, and of one vector more in the last one or in the tail.
    constexpr int words_of_piece = 4 * Shape::vectors;
    const bool all_are_full = last < pieces && slice.ordinary_end == pieces;
    const int words = pieces * words_of_piece + (all_are_full ? 0 : 4);
#pragma unroll 1
    for (unsigned left = lanes; left != 0; left &= left - 1) {
#pragma unroll 1
      for (int word = ring.thread % 32; word - ring.thread % 32 < words; word += 32) {
        const int p = min(word / words_of_piece, last), k = (word - p * words_of_piece) / 4;
        const auto piece = piece_again(p).of_lane(__ffs(left) - 1);
        const bool is_there = word < words && piece.has(k);
        sums.absorb_of_warp(loss, known, is_there, piece.word(is_there ? k : 0, word % 4));
      }
    }
    return sums.merge_equals(loss);
  }

  // ---- gradient -----------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void differentiate(int i, const Slice& slice, RingCursor& cursor) {
    constexpr bool is_loaded_anew = pass == Pass::backward || Shape::reads_again;
    const int use = RowSlot(i).index;
    SumsNote note{false, true};
    if constexpr (!is_loaded_anew) note = ring.shared.note[use][ring.thread / 32];
    const PieceGradient<Loss, T, Shape> gradient(loss, ring.shared.posted[use], ring.call, note);
    const int label_piece = Loss::needs_label ? ring.piece_of(slice, gradient.label) : -1;
    ring.walk(slice, 0, ring.launch.slices.pieces, cursor,
              [&](auto ordinary, const RingCursor& at, int p, bool is_last) {
                if (is_loaded_anew && p < ring.launch.slices.pieces) {
                  ring.wait_until_full(at);
                  if (!ordinary && slice.odd & Slice::shifted) ring.shift_teacher(i, slice, p, at);
                }
                gradient.template write<ordinary()>(ring.template view<ordinary()>(slice, at, p), p == label_piece);
                if (is_last) ring.release(at, !ordinary && slice.odd != 0);
              });
  }
};

}  // namespace vocabloss::Impl

#endif
