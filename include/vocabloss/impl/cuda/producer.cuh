// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_PRODUCER_CUH
#define VOCABLOSS_IMPL_CUDA_PRODUCER_CUH

/// \file
/// \brief The producer: one thread that fills the slots of the ring with pieces of rows, as soon as the consumers are
/// done with what a slot held before. In row order; where rows are read again (RereadingShape), and for one round of
/// statistics,
///
///     sum row 0, sum row 1, gradient row 0, sum row 2, gradient row 1, ...
///
/// each of all slices of the row.

#include <vocabloss/impl/cuda/row_claims.cuh>

#include <climits>

namespace vocabloss::Impl {

template <class Loss, class T, Pass pass, class Shape>
struct Producer {
  static constexpr int columns_of_vector = vector_columns<T>;
  using Layout = RowLayout<columns_of_vector, Shape::piece_vectors>;

  const RowCall<float>& call;
  const ClusterLaunch& launch;
  const RowClaims claims;
  RowClaimer<Shape::reads_again> claimer;
  ClusterShared<Loss>& shared;
  unsigned char* ring;
  const int rank;

  RingCursor cursor{};
  int loaded = 0;      ///< pieces so far
  int retired = 0;     ///< rows
  int retires_at = 0;  ///< the next one: when so many pieces have been loaded

  __device__ void run() {
    constexpr int stages = Shape::reads_again ? Loss::rounds + 1 : 1;
    retires_at = stages * (stages + 1) / 2 * pieces_of_row() - 1 + launch.slots;
    claimer.begin(steps_of_row());
    if constexpr (Shape::reads_again) {
      load_in_stages();
    } else {
      load_in_order();
    }
  }

 private:
  /// Steps in which the next row is claimed, while this one is loaded. Rows of several groups pass faster than a ticket
  /// comes: for them it is asked for a row earlier.
  __device__ __forceinline__ int steps_of_row() const { return Shape::groups > 1 ? 1 : pieces_of_row(); }
  /// In this block, at one stage.
  __device__ __forceinline__ int pieces_of_row() const {
    return Shape::reads_again ? launch.slices.pieces * launch.in_turn : launch.slices.pieces;
  }

  /// After the last row the first slot of what would be each group's next is full without a piece, so that the
  /// consumers see the end.
  __device__ __forceinline__ void load_in_order() {
    int i = 0;
#pragma unroll 1
    for (; claims.wait_for(i) >= 0; ++i) load_slice(i, rank, i, i, 0, true);
    for (int end = i; end < i + Shape::groups; ++end) {
      wait_for_slot();
      shared.slice[end % max_claims][0].vectors = shared.slice[end % max_claims][1].vectors = -1;
      arrive(&shared.full[cursor.slot]);
      if (Shape::groups > 1) cursor.advance_by(launch.slices.pieces, launch.slots);
    }
  }

  __device__ __forceinline__ void load_in_stages() {
    int rows = INT_MAX;  // until the last claim is seen
    int sweep = 0;       // over a slice
#pragma unroll 1
    for (int newest = 0; newest - Loss::rounds < rows; ++newest) {
      if (newest < rows && claims.wait_for(newest) < 0) rows = newest;
      const int last_stage = newest < Loss::rounds ? newest : Loss::rounds;
#pragma unroll 1
      for (int stage = newest < rows ? 0 : newest - rows + 1; stage <= last_stage; ++stage) {
        const bool is_before_new_row = stage == last_stage && newest < rows;
#pragma unroll 1
        for (int s = 0; s < launch.in_turn; ++s) {
          load_slice(newest - stage, s, sweep++, is_before_new_row ? newest : -1, s * launch.slices.pieces,
                     stage == Loss::rounds);
        }
      }
    }
  }

  /// `entry`: where the consumers look for what the slice is like. `newest`: the last row that has been claimed, if the
  /// next is asked for during this slice, whose first piece is the `first`-th of all until then; or negative.
  __device__ __forceinline__ void load_slice(int i, int slice, int entry, int newest, int first, bool is_last_time) {
    const std::int64_t row = claims.row(i);
    const T* const x = call.logits.template row<T>(row);
    const T* const t = Loss::streams == 2 ? call.teacher.template row<T>(row) : nullptr;
    const Layout layout = Layout::at(x, call.columns);
    const std::uint32_t odd = oddity(layout, t, row);
    int label = no_label;
    if constexpr (Loss::needs_label) label = label_of(row);
    const SliceOfRow of_first = slice_of_row(layout, odd, launch.slices, slice);
    shared.slice[entry % max_claims][0] = of_first;
    shared.slice[entry % max_claims][1] = of_first.without_first_vector();
    const int first_vector = slice * launch.slices.slice_vectors;
    const unsigned char *from_x = granule_of(x) + first_vector * 16, *from_t = granule_of(t) + first_vector * 16;
    int rest = layout.vectors_in(launch.slices, slice);
#pragma unroll 1
    for (int p = 0; p < launch.slices.pieces; ++p) {
      if (newest >= 0 && (Shape::groups == 1 || p == 0)) claimer.advance(newest, first + p, steps_of_row());
      // Where the copies go is worked out before they may start: nothing but the copies themselves is done between the
      // consumers' signal and the refill.
      const int count = Layout::count(launch.slices, p, rest);
      const std::uint32_t bytes = count * 16;
      std::uint32_t bytes_t = Loss::streams == 2 ? bytes : 0;
      if (Loss::streams == 2 && odd & SliceOfRow::shifted) {
        // The granules that the same columns touch there.
        const Piece piece{first_vector + p * Shape::piece_vectors, count};
        from_t = granule_of(t + layout.first_column(piece));
        const T* const end = t + layout.end_column(piece);
        bytes_t = count ? static_cast<std::uint32_t>(granule_of(end + columns_of_vector - 1) - from_t) : 0;
      }
      wait_for_slot();
      Barrier* const full = &shared.full[cursor.slot];
      unsigned char* const region = ring + cursor.slot * launch.slot_bytes;
      if constexpr (Loss::needs_label) shared.label[cursor.slot] = label;
      arrive_expecting(full, bytes + bytes_t);
      copy(region, from_x, bytes, full, is_last_time);
      copy(region + launch.region_bytes, from_t, bytes_t, full, is_last_time);
      cursor.advance(launch.slots);
      rest -= Shape::piece_vectors;
      from_x += Shape::piece_vectors * 16;
      from_t += Shape::piece_vectors * 16;
    }
  }

  /// Until consumers are done with what the next slot held.
  __device__ __forceinline__ void wait_for_slot() {
    wait(&shared.done[cursor.slot], cursor.parity ^ 1);  // a phase before the first has ended
    if (loaded++ != retires_at) return;
    claims.retire(retired++);
    retires_at += (Shape::reads_again ? Loss::rounds + 1 : 1) * pieces_of_row();
  }

  /// The 16 bytes that hold this column.
  __device__ __forceinline__ static const unsigned char* granule_of(const T* column) {
    return reinterpret_cast<const unsigned char*>(reinterpret_cast<std::uintptr_t>(column) & ~std::uintptr_t(15));
  }

  __device__ __forceinline__ static void copy(unsigned char* to, const unsigned char* from, std::uint32_t bytes,
                                              Barrier* full, bool is_last_time) {
    if (bytes == 0) return;
    if constexpr (Shape::reads_again) {
      bulk_load_for_again(to, from, bytes, full, is_last_time);
    } else {
      bulk_load(to, from, bytes, full);
    }
  }

  /// Which other streams of a row start at another offset within granules than the logits.
  __device__ __forceinline__ std::uint32_t oddity(const Layout& layout, const T* t, std::int64_t row) const {
    const auto differs = [&](const T* other) { return Layout::at(other, 0).phase != layout.phase; };
    std::uint32_t odd = 0;
    if (Loss::streams == 2 && differs(t)) odd |= SliceOfRow::shifted;
    if constexpr (pass != Pass::forward) {
      if (differs(call.gradient.template row<T>(row))) odd |= SliceOfRow::moved;
    }
    return odd;
  }

  /// The label's column here, or no_label. The consumers need it early; whether the row counts, the exchange warp finds
  /// out. No branch depends on what is loaded, so that nobody waits for it before the copies are issued.
  __device__ __forceinline__ int label_of(std::int64_t row) const {
    const std::int64_t label = call.labels64.data ? call.labels64.at(row, 0) : call.labels32.at(row, -1);
    const std::int64_t local = label - call.first_column;
    return local >= 0 && local < call.columns ? static_cast<int>(local) : no_label;
  }
};

}  // namespace vocabloss::Impl

#endif
