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
/// (A loss of two rounds does not: its state of the next row would not fit the registers.) Warps never wait for one
/// another: each leaves its merged state to the exchange warp and goes on.

#include <vocabloss/impl/cuda/piece_gradient.cuh>
#include <vocabloss/impl/cuda/piece_repair.cuh>
#include <vocabloss/impl/cuda/row_claims.cuh>
#include <vocabloss/impl/cuda/row_sums.cuh>

#include <cstddef>

namespace vocabloss::Impl {

template <class Loss, class T, Pass pass, class Shape>
struct Consumer {
  using Layout = RowLayout<vector_columns<T>, Shape::piece_vectors>;
  using View = PieceView<Loss, T, Shape>;
  using Slice = SliceOfRow;
  using Statistics = typename Loss::Statistics;
  template <int Round>
  using Sums = std::conditional_t<loss::SumsPlainly<Loss, Round>, PlainRowSums<Loss, T, Shape, Round>,
                                  ExactRowSums<Loss, T, Shape, Round>>;

  const Loss& loss;
  const RowCall<float>& call;
  const ClusterLaunch& launch;
  const RowClaims claims;
  ClusterShared<Loss>& shared;
  const int thread;
  const std::uint32_t ring_address;  ///< of this thread's first vector in slot 0
  const std::uint32_t shared_base;

  __device__ void run() {
    if constexpr (pass == Pass::backward) {
      run_backward();
    } else {
      run_forward();
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

  __device__ __forceinline__ void run_forward() {
    const int pieces = launch.slices.pieces, ahead = launch.ahead;
    Gathering<0> first;
    for (int i = 0;; ++i) {
      // First what is left of this row, then a part of the next.
#pragma unroll 1
      for (int part = 0; part < 2; ++part) {
        const bool exists = gather_until(part ? ahead : pieces, i + part, first);
        if (part) break;
        if (!exists) return;
        first.pieces = 0;
        if constexpr (Loss::rounds == 2) {
          gather_second(i, first.cursor.before(pieces, launch.slots));
          break;
        }
      }
      wait(&shared.template round<Loss::rounds - 1>().ready[RowSlot(i).index], RowSlot(i).parity);
      if constexpr (pass == Pass::forward_backward) {
        RingCursor gradient = first.cursor.before(pieces + first.pieces, launch.slots);
        differentiate(i, gradient);
      }
    }
  }

  /// The exchange warp loads the statistics that were saved of rows that are asked for.
  __device__ __forceinline__ void run_backward() {
    constexpr int rows_ahead = 3;
    RingCursor gradient;
    for (int i = 0; i < rows_ahead; ++i) ask_for_statistics(i);
    for (int i = 0;; ++i) {
      wait_until_full(gradient);
      if (!slice_of(i).exists()) return;
      ask_for_statistics(i + rows_ahead);
      wait(&shared.template round<Loss::rounds - 1>().ready[RowSlot(i).index], RowSlot(i).parity);
      differentiate(i, gradient);
    }
  }
  __device__ __forceinline__ void ask_for_statistics(int i) const {
    if (thread % 32 == 0) arrive(&shared.first.gathered[RowSlot(i).index]);
  }

  // ---- slots --------------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void wait_until_full(const RingCursor& cursor) const {
    wait(shared_base + static_cast<std::uint32_t>(offsetof(ClusterShared<Loss>, full) + cursor.slot * sizeof(Barrier)),
         cursor.parity);
  }
  /// `written`: whether this thread may have stored to the slot.
  __device__ __forceinline__ void release(const RingCursor& cursor, bool written) const {
    if (written) order_before_bulk_copies();
    __syncwarp();
    if (thread % 32 == 0) {
      arrive(shared_base +
             static_cast<std::uint32_t>(offsetof(ClusterShared<Loss>, done) + cursor.slot * sizeof(Barrier)));
    }
  }

  __device__ __forceinline__ std::uint32_t region(const RingCursor& cursor, int stream) const {
    return address(cursor) - thread * 16 + stream * launch.region_bytes;
  }

  /// Once the row's first slot has been waited for.
  __device__ __forceinline__ Slice slice_of(int i) const { return shared.slice[i % max_claims][thread < 32 ? 0 : 1]; }
  __device__ __forceinline__ Layout layout_of(const Slice& slice) const { return {slice.phase, call.columns}; }

  __device__ __forceinline__ std::uint32_t address(const RingCursor& cursor) const {
    return ring_address + cursor.slot * launch.slot_bytes;
  }
  __device__ __forceinline__ View ordinary_view(const Slice& slice, const RingCursor& cursor, int p) const {
    const int first = slice.first_column + (p * Shape::piece_vectors + thread) * vector_columns<T>;
    const auto teacher = static_cast<std::uint32_t>(launch.region_bytes);
    return {address(cursor), teacher, thread, Shape::piece_vectors, first, call.columns, false};
  }
  /// Any piece; the one after the last is the tail, in the slot of the last. The first threads have what is odd at a
  /// row's beginning to do: the tail is for those from the middle on.
  __device__ __forceinline__ View view(const Slice& slice, const RingCursor& cursor, int p) const {
    constexpr int n = vector_columns<T>;
    const bool is_tail = p == launch.slices.pieces;
    const int count = is_tail ? slice.vectors - p * Shape::piece_vectors
                              : Layout::count(launch.slices, p, slice.vectors - p * Shape::piece_vectors);
    const int first = slice.first_column + p * (Shape::piece_vectors * n);
    const int end = min(first + count * n, call.columns);
    const bool is_cut = first < 0 || first + max(count, Shape::piece_vectors) * n > end;
    const auto teacher = static_cast<std::uint32_t>(launch.region_bytes);
    const int vector = is_tail ? place_in_tail() : thread;
    const std::uint32_t data = address(cursor) + (vector - thread + (is_tail ? Shape::piece_vectors : 0)) * 16;
    return {data, teacher, vector, count, first + vector * n, end, is_cut};
  }
  __device__ __forceinline__ int place_in_tail() const { return thread ^ (Shape::threads / 2); }
  __device__ __forceinline__ int tail_of(const Slice& slice) const {
    return slice.tail(launch.slices.pieces, Shape::piece_vectors);
  }
  /// Whether the warp has vectors there.
  __device__ __forceinline__ bool has_tail(const Slice& slice) const {
    return tail_of(slice) > (place_in_tail() & ~31);
  }

  // ---- statistics ---------------------------------------------------------------------------------------------------

  /// Sums pieces of the i-th claim's row up to `target` of them; leaves the warp's state once it has all. Nothing is
  /// left to do where they have been summed before. False: there is no such row.
  __device__ __forceinline__ bool gather_until(int target, int i, Gathering<0>& row) {
    if (target <= row.pieces) return true;
    wait_until_full(row.cursor);
    const Slice slice = slice_of(i);
    if (!slice.exists()) return false;
    sum<0, true>(row.sums, {}, i, slice, row.pieces, target, row.cursor);
    row.pieces = target;
    if (target == launch.slices.pieces) {
      leave<0>(i, row.sums, {}, slice, row.cursor);
      row.sums = Sums<0>{};
    }
    return true;
  }

  /// The second round, with the statistics of the first.
  __device__ __forceinline__ void gather_second(int i, RingCursor cursor) {
    const RowSlot use(i);
    wait(&shared.first.ready[use.index], use.parity);
    const Statistics& known = shared.posted[use.index].statistics;
    const Slice slice = slice_of(i);
    Sums<1> sums;
    sum<1, false>(sums, known, i, slice, 0, launch.slices.pieces, cursor);
    leave<1>(i, sums, known, slice, cursor);
  }

  /// Pieces from `p` up to `end`. `is_first`: nobody has waited for them yet.
  template <int Round, bool is_first>
  __device__ __forceinline__ void sum(Sums<Round>& sums, const Statistics& known, int i, const Slice& slice, int p,
                                      int end, RingCursor& cursor) {
    for (;;) {
      for (const int stop = slice.ordinary_until(p, end); p < stop; ++p, cursor.advance(launch.slots)) {
        if constexpr (is_first) wait_until_full(cursor);
        absorb<Round, true>(sums, known, ordinary_view(slice, cursor, p), cursor);
      }
      const bool is_tail = p == end;
      if (is_tail && (end < launch.slices.pieces || !has_tail(slice))) return;
      const RingCursor at = is_tail ? cursor.before(1, launch.slots) : cursor;
      if (is_first && !is_tail) wait_until_full(at);
      if (is_first && slice.odd & Slice::shifted) shift_teacher(i, slice, p, at);
      if (!loss::SumsPlainly<Loss, Round> && slice.odd & Slice::ragged) neutralise(slice, p, at);
      absorb<Round, false>(sums, known, view(slice, at, p), at);
      if (is_tail) return;
      ++p;
      cursor.advance(launch.slots);
    }
  }
  template <int Round, bool ordinary>
  __device__ __forceinline__ void absorb(Sums<Round>& sums, const Statistics& known, const View& piece,
                                         const RingCursor& cursor) const {
    if constexpr (loss::SumsPlainly<Loss, Round>) {
      sums.template absorb<ordinary>(loss, known, piece);
    } else {
      sums.template absorb<ordinary>(loss, known, piece, Loss::needs_label ? shared.label[cursor.slot] : no_label);
    }
  }

  /// The warp's state of a whole row, for the exchange warp. `end`: the cursor past its last piece.
  template <int Round>
  __device__ __forceinline__ void leave(int i, Sums<Round>& sums, const Statistics& known, const Slice& slice,
                                        const RingCursor& end) {
    const RingCursor start = end.before(launch.slices.pieces, launch.slots);
    constexpr bool is_last = Round == Loss::rounds - 1;
    typename Loss::template State<Round> merged;
    bool is_finite = false;
    if constexpr (loss::SumsPlainly<Loss, Round>) {
      const auto plain = sums.merge(loss, known);
      merged = plain.is_good ? plain.state : sum_again<Round>(sums, known, slice, start);
      if constexpr (Loss::needs_label) loss.note_label(merged, label_logit(slice, start));
      is_finite = plain.is_finite;
    } else {
      merged = sums.merge(loss);
    }
    if constexpr (pass == Pass::forward && is_last) {
      RingCursor cursor = start;
      for (int p = 0; p < launch.slices.pieces; ++p, cursor.advance(launch.slots)) release(cursor, slice.odd != 0);
    }
    if (thread % 32 == 0) {
      auto& buffers = shared.template round<Round>();
      const int use = RowSlot(i).index;
      buffers.warp_state[use][thread / 32] = to_words(merged);
      if constexpr (is_last) shared.sums_are_finite[use][thread / 32] = is_finite;
      arrive(&buffers.gathered[use]);
    }
  }

  /// Where a column of the row lies in the slice: its piece, or -1.
  __device__ __forceinline__ int piece_of(const Slice& slice, int column) const {
    const int vector = (column - slice.first_column) / vector_columns<T>;
    const bool is_here = column >= 0 && column >= slice.first_column && vector < slice.vectors;
    return is_here ? min(vector / Shape::piece_vectors, launch.slices.pieces - 1) : -1;
  }
  /// The label's logit, for one warp of one block; 0 for all others.
  __device__ __forceinline__ float label_logit(const Slice& slice, RingCursor cursor) const {
    const int label = shared.label[cursor.slot];
    const int p = thread < 32 ? piece_of(slice, label) : -1;
    if (p < 0) return 0;
    cursor.slot += p;
    if (cursor.slot >= launch.slots) cursor.slot -= launch.slots;
    const int first = slice.first_column + p * (Shape::piece_vectors * vector_columns<T>);
    return widen(static_cast<const T*>(__cvta_shared_to_generic(region(cursor, 0)))[label - first]);
  }

  /// The exact way, but for the label, where the plain one will not do. Mostly one lane holds the column that decides a
  /// row: then all lanes share its words.
  template <int Round>
  __device__ __forceinline__ auto sum_again(Sums<Round>& plain, const Statistics& known, const Slice& slice,
                                            const RingCursor& start) {
    ExactRowSums<Loss, T, Shape, Round> sums;
    const unsigned lanes = plain.lanes_to_sum_again(loss, known);
    const bool is_all = lanes == ~0u;
    RingCursor next = start;
    const bool ends_in_tail = has_tail(slice);
#pragma unroll 1
    for (int p = 0; p < launch.slices.pieces + (ends_in_tail ? 1 : 0); ++p, next.advance(launch.slots)) {
      const bool is_tail = p == launch.slices.pieces;
      const RingCursor cursor = is_tail ? next.before(1, launch.slots) : next;
      if (slice.odd & Slice::ragged) {
        neutralise(slice, p, cursor);
        __syncwarp();
      }
      View piece = view(slice, cursor, p);
      if (tail_of(slice) > 0 && p + 1 == launch.slices.pieces) piece.count = Shape::piece_vectors;
      const int first = is_all ? 0 : thread % 32, step = is_all ? 1 : 32;
#pragma unroll 1
      for (unsigned left = is_all ? 1u << thread % 32 : lanes; left != 0; left &= left - 1) {
        sums.absorb_words(loss, known, piece.of_lane(__ffs(left) - 1), first, step);
      }
    }
    const auto merged = sums.merge(loss);
    return is_all ? merged : loss.template merge<Round>(merged, plain.state_without(lanes, loss, known));
  }

  // ---- gradient -----------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void differentiate(int i, RingCursor& cursor) {
    const Slice slice = slice_of(i);
    const int use = RowSlot(i).index;
    const bool is_finite = pass != Pass::backward && shared.sums_are_finite[use][thread / 32];
    const PieceGradient<Loss, T, Shape> gradient(loss, shared.posted[use], call, is_finite);
    const int label_piece = Loss::needs_label ? piece_of(slice, gradient.label) : -1;
    const int end = launch.slices.pieces;
    const bool ends_in_tail = has_tail(slice);
    for (int p = 0;;) {
      for (const int stop = slice.ordinary_until(p, end); p < stop; ++p, cursor.advance(launch.slots)) {
        if constexpr (pass == Pass::backward) wait_until_full(cursor);
        gradient.template write<true>(ordinary_view(slice, cursor, p), p == label_piece);
        if (!ends_in_tail || p + 1 < end) release(cursor, false);
      }
      const bool is_tail = p == end;
      if (is_tail && !ends_in_tail) return;
      const RingCursor at = is_tail ? cursor.before(1, launch.slots) : cursor;
      if (pass == Pass::backward && !is_tail) wait_until_full(at);
      if (pass == Pass::backward && slice.odd & Slice::shifted) shift_teacher(i, slice, p, at);
      gradient.template write<false>(view(slice, at, p), p == label_piece);
      release(at, slice.odd != 0);
      if (is_tail) return;
      ++p;
      cursor.advance(launch.slots);
    }
  }

  // ---- odd rows -----------------------------------------------------------------------------------------------------

  /// By how many columns another stream of the piece lies further on in its region than the logits do.
  __device__ __forceinline__ static int offset_of(const T* other_row, const Layout& layout, const Piece& piece) {
    const int column = layout.first_column(piece);
    return Layout::at(other_row + column, 0).phase - (column - layout.column_of(piece.first));
  }

  __device__ __forceinline__ void shift_teacher(int i, const Slice& slice, int p, const RingCursor& cursor) const {
    const Layout layout = layout_of(slice);
    const Piece piece = layout.piece(launch.slices, shared.rank, p);
    if constexpr (Loss::streams == 2) {
      const int offset = piece.count ? offset_of(call.teacher.template row<T>(claims.row(i)), layout, piece) : 0;
      if (offset != 0) shift_columns<T, Shape>(region(cursor, 1), offset, piece.count, thread);
    }
  }

  /// Of this thread's vectors. Doing it twice does no harm.
  __device__ __forceinline__ void neutralise(const Slice& slice, int p, const RingCursor& cursor) const {
    const Layout layout = layout_of(slice);
    const int last = launch.slices.pieces - 1;
    Piece piece = layout.piece(launch.slices, shared.rank, min(p, last));
    if (p == last && tail_of(slice) > 0) piece.count = Shape::piece_vectors;
    if (piece.count == 0 || !layout.is_ragged(piece)) return;
    const int vector = p > last ? Shape::piece_vectors + place_in_tail() : thread;
    neutralise_neighbours<T, Shape>(region(cursor, 0), layout, piece, -INFINITY, vector);
    if constexpr (Loss::streams == 2) {
      constexpr float neutral = Loss::teacher_is_logits ? -INFINITY : 0.0f;
      neutralise_neighbours<T, Shape>(region(cursor, 1), layout, piece, neutral, vector);
    }
  }
};

}  // namespace vocabloss::Impl

#endif
