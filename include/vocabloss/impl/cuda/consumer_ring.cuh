// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CONSUMER_RING_CUH
#define VOCABLOSS_IMPL_CUDA_CONSUMER_RING_CUH

/// \file
/// \brief The ring of slots as a consumer warp sees it: it waits for slots and releases them, walks through the pieces
/// of a row, and puts odd ones in order.

#include <vocabloss/impl/cuda/piece_repair.cuh>
#include <vocabloss/impl/cuda/piece_view.cuh>
#include <vocabloss/impl/cuda/row_claims.cuh>
#include <vocabloss/impl/cuda/stored_piece.cuh>

#include <cmath>
#include <cstddef>
#include <type_traits>

namespace vocabloss::Impl {

template <class Loss, class T, class Shape>
struct ConsumerRing {
  static constexpr int columns_of_vector = vector_columns<T>;
  using Layout = RowLayout<columns_of_vector, Shape::piece_vectors>;
  using View = PieceView<Loss, T, Shape>;
  using Stored = StoredPiece<Loss, T, Shape>;
  using Slice = SliceOfRow;

  const RowCall<float>& call;
  const ClusterLaunch& launch;
  const RowClaims claims;
  ClusterShared<Loss>& shared;
  int thread;                   ///< among the row's: see turn_to
  std::uint32_t slots_address;  ///< of this thread's first vector in slot 0
  const std::uint32_t shared_base;

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
  __device__ __forceinline__ std::uint32_t address(const RingCursor& cursor) const {
    return slots_address + cursor.slot * launch.slot_bytes;
  }
  /// Where piece p of a stream begins in the slot; the tail follows the last piece in its slot.
  __device__ __forceinline__ std::uint32_t region(const RingCursor& cursor, int stream, int p) const {
    const int before = p == launch.slices.pieces ? Shape::piece_vectors : 0;
    return address(cursor) + (before - thread) * 16 + stream * launch.region_bytes;
  }

  // ---- rows and their pieces ----------------------------------------------------------------------------------------

  /// Once the row's first slot has been waited for.
  __device__ __forceinline__ Slice slice_of(int i) const { return shared.slice[i % max_claims][thread < 32 ? 0 : 1]; }

  /// Takes this warp's place among those of row i. In uneven rows some places have more to do than others: the first
  /// has what is odd at the row's beginning, a few have the tail. Were those the same warps in every row, the others
  /// would wait for them; so each warp takes each place in turn. Sums are left by place: bits do not depend on i.
  __device__ __forceinline__ void turn_to(int i) {
    static_assert((Shape::warps & (Shape::warps - 1)) == 0);
    if (launch.is_uneven == 0) return;
    const int turn = i / Shape::groups * 5 & (Shape::warps - 1);
    const int place = Shape::thread_of_group() ^ turn * 32;
    slots_address += (place - thread) * 16;
    thread = place;
  }

  /// Calls `visit(is_ordinary, at, p, is_last)` for the pieces from `p` up to `end`. The one after the last is the
  /// tail, in the slot of the last, for the warps that have a part of it. `is_ordinary` is a type; `is_last`: no other
  /// piece that this warp has lies in the slot.
  template <class Visit>
  __device__ __forceinline__ void walk(const Slice& slice, int p, int end, RingCursor& cursor, Visit&& visit) const {
    const bool ends_in_tail = end == launch.slices.pieces && has_tail(slice);
    int before_tail = ends_in_tail ? end - 1 : -1;
    asm("" : "+r"(before_tail));  // a register: the compiler would find it anew for every piece
    for (;;) {
      for (const int stop = slice.ordinary_until(p, end); p < stop; ++p, cursor.advance(launch.slots)) {
        visit(std::true_type{}, cursor, p, p != before_tail);
      }
      const bool is_tail = p == end;
      if (is_tail && before_tail < 0) return;
      visit(std::false_type{}, is_tail ? cursor.before(1, launch.slots) : cursor, p, true);
      if (is_tail) return;
      ++p;
      cursor.advance(launch.slots);
    }
  }

  template <bool ordinary>
  __device__ __forceinline__ View view(const Slice& slice, const RingCursor& cursor, int p) const {
    const auto teacher = static_cast<std::uint32_t>(launch.region_bytes);
    if constexpr (ordinary) {
      const int first = slice.first_column + (p * Shape::piece_vectors + thread) * columns_of_vector;
      return {address(cursor), teacher, thread, Shape::piece_vectors, first, call.columns, false};
    } else {
      const int count = slice.count(launch.slices, p, Shape::piece_vectors);
      const int first = slice.first_column + p * (Shape::piece_vectors * columns_of_vector);
      const int end = min(first + count * columns_of_vector, call.columns);
      const bool is_cut = first < 0 || first + max(count, Shape::piece_vectors) * columns_of_vector > end;
      const int vector = first_vector(p);
      const std::uint32_t data = region(cursor, 0, p) + vector * 16;
      return {data, teacher, vector, count, first + vector * columns_of_vector, end, is_cut};
    }
  }
  /// The same piece in global memory, once it is no longer in the ring.
  __device__ __forceinline__ Stored stored(int i, const Slice& slice, int p) const {
    const std::int64_t row = claims.row(i);
    const int vector = first_vector(p);
    Stored piece{call.logits.template row<T>(row),
                 nullptr,
                 vector,
                 slice.count(launch.slices, p, Shape::piece_vectors),
                 slice.first_column + (p * Shape::piece_vectors + vector) * columns_of_vector,
                 call.columns};
    if constexpr (Loss::streams == 2) piece.t = call.teacher.template row<T>(row);
    return piece;
  }

  /// Where a column of the row lies in the slice: its piece (the last one's tail is part of it), or -1.
  __device__ __forceinline__ int piece_of(const Slice& slice, int column) const {
    const int vector = (column - slice.first_column) / columns_of_vector;
    const bool is_here = column >= 0 && column >= slice.first_column && vector < slice.vectors;
    return is_here ? min(vector / Shape::piece_vectors, launch.slices.pieces - 1) : -1;
  }
  /// The label's piece, for one warp of one block; -1 for all others. `cursor`: of any piece of the row.
  __device__ __forceinline__ int label_piece(const Slice& slice, const RingCursor& cursor) const {
    return thread < 32 ? piece_of(slice, shared.label[cursor.slot]) : -1;
  }
  /// The label's logit, where its piece is in the slot.
  __device__ __forceinline__ float label_logit(const Slice& slice, const RingCursor& cursor, int p) const {
    const int first = slice.first_column + p * (Shape::piece_vectors * columns_of_vector);
    return widen(
        static_cast<const T*>(__cvta_shared_to_generic(region(cursor, 0, 0)))[shared.label[cursor.slot] - first]);
  }

  /// Whether the warp has vectors in the tail.
  __device__ __forceinline__ bool has_tail(const Slice& slice) const {
    return slice.tail(launch.slices.pieces, Shape::piece_vectors) > (place_in_tail() & ~31);
  }

  // ---- odd rows -----------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void shift_teacher(int i, const Slice& slice, int p, const RingCursor& cursor) const {
    if constexpr (Loss::streams == 2) {
      const Layout layout{slice.phase, call.columns};
      const Piece piece = piece_at(slice, p);
      const int offset = piece.count ? offset_of(call.teacher.template row<T>(claims.row(i)), layout, piece) : 0;
      if (offset != 0) shift_columns<T, Shape>(region(cursor, 1, p), offset, piece.count, thread);
    }
  }

  /// Of this thread's vectors. Doing it twice does no harm.
  __device__ __forceinline__ void neutralise(const Slice& slice, int p, const RingCursor& cursor) const {
    const Layout layout{slice.phase, call.columns};
    const Piece piece = piece_at(slice, p);
    if (piece.count == 0 || !layout.is_ragged(piece)) return;
    neutralise_neighbours<T, Shape>(region(cursor, 0, p), layout, piece, -INFINITY, first_vector(p));
    if constexpr (Loss::streams == 2) {
      constexpr float neutral = Loss::teacher_is_logits ? -INFINITY : 0.0f;
      neutralise_neighbours<T, Shape>(region(cursor, 1, p), layout, piece, neutral, first_vector(p));
    }
  }

 private:
  /// This thread's first vector of a piece. The first threads have what is odd at a row's beginning to do: the tail is
  /// for those from the middle on.
  __device__ __forceinline__ int first_vector(int p) const {
    return p == launch.slices.pieces ? place_in_tail() : thread;
  }
  __device__ __forceinline__ int place_in_tail() const { return thread ^ (Shape::threads / 2); }

  __device__ __forceinline__ Piece piece_at(const Slice& slice, int p) const {
    const int first = Shape::reads_again ? (slice.first_column + slice.phase) / columns_of_vector
                                         : shared.rank * launch.slices.slice_vectors;
    return {first + p * Shape::piece_vectors, slice.count(launch.slices, p, Shape::piece_vectors)};
  }
  /// By how many columns another stream of the piece lies further on in its region than the logits do.
  __device__ __forceinline__ static int offset_of(const T* other_row, const Layout& layout, const Piece& piece) {
    const int column = layout.first_column(piece);
    return Layout::at(other_row + column, 0).phase - (column - layout.column_of(piece.first));
  }
};

}  // namespace vocabloss::Impl

#endif
