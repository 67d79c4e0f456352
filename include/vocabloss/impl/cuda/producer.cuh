// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_PRODUCER_CUH
#define VOCABLOSS_IMPL_CUDA_PRODUCER_CUH

/// \file
/// \brief The producer warp: fills the slots of the ring with pieces of rows, as soon as the consumers are done with
/// what a slot held before. In row order; where rows are read again (RereadingShape), and for one round of statistics,
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
  const int lane;
  int label = no_label;      ///< of the row that is being loaded
  int rows_known = INT_MAX;  ///< until the last claim is seen

  /// The next piece of a sequence: of which row, for which stage of it, and its slot.
  struct Cursor {
    static constexpr int stages = Shape::reads_again ? Loss::rounds + 1 : 1;
    int row = 0;
    int piece = 0;
    RingCursor ring;
    int stage = 0;
    int sweep = 0;  ///< over a slice
    __device__ __forceinline__ void advance(const ClusterLaunch& launch, int rows_known) {
      ring.advance(launch.slots);
      ++piece;
      if (Shape::reads_again && piece % launch.slices.pieces == 0) ++sweep;
      if (piece < pieces_of_stage(launch)) return;
      piece = 0;
      if constexpr (!Shape::reads_again) {
        ++row;
      } else {
        const int newest = row + stage;
        --row;
        if (++stage == stages || row < 0) {
          row = newest + 1;
          stage = 0;
        }
        skip_missing(rows_known);
      }
    }
    /// Of a row, in this block.
    __device__ __forceinline__ static int pieces_of_stage(const ClusterLaunch& launch) {
      return Shape::reads_again ? launch.slices.pieces * launch.in_turn : launch.slices.pieces;
    }
    /// Past the stages of rows that do not exist.
    __device__ __forceinline__ void skip_missing(int rows_known) {
      while (row >= rows_known && stage < stages) {
        --row;
        ++stage;
      }
      if (row < 0) stage = stages;
    }
    __device__ __forceinline__ bool has_ended(int rows_known) const {
      return Shape::reads_again ? stage == stages : row >= rows_known;
    }
    __device__ __forceinline__ bool is_last_stage() const { return stage == stages - 1; }
    /// Whether the next piece is of a row that has not been loaded.
    __device__ __forceinline__ bool is_before_new_row() const { return is_last_stage() || row == 0; }
  };

  __device__ void run() {
    Cursor load_cursor, freed;
    Load load = prepare_load(load_cursor);
    for (int i = 0; i < launch.slots; ++i) advance(load, load_cursor);
    if constexpr (Shape::reads_again) freed.skip_missing(rows_known);
    for (; !freed.has_ended(rows_known); freed.advance(launch, rows_known)) {
      wait(&shared.done[freed.ring.slot], freed.ring.parity);
      advance(load, load_cursor);
      if (freed.piece + 1 == Cursor::pieces_of_stage(launch) && freed.is_last_stage()) claims.retire(freed.row);
    }
  }

 private:
  // Where the next copies go is worked out before they may start: nothing but the copies themselves is done between the
  // consumers' signal and the refill.

  struct Load {
    int slot;
    const void* x;
    const void* t;
    std::uint32_t x_bytes, t_bytes;
    int label;
    bool is_last_time;
  };

  __device__ __forceinline__ Load prepare_load(Cursor& cursor) {
    if (cursor.row == 0 && cursor.piece == 0 && cursor.stage == 0) {
      if (lane == 0) claimer.begin(Cursor::pieces_of_stage(launch));
      __syncwarp();
    }
    if (cursor.piece == 0 && cursor.stage == 0 && claims.wait_for(cursor.row) < 0) {
      rows_known = cursor.row;
      if constexpr (Shape::reads_again) cursor.skip_missing(rows_known);
      if (!Shape::reads_again && lane == 0)
        shared.slice[cursor.row % max_claims][0].vectors = shared.slice[cursor.row % max_claims][1].vectors = -1;
      if (!Shape::reads_again || cursor.has_ended(rows_known)) return {.slot = cursor.ring.slot};
    }
    const int newest = cursor.row + cursor.stage;
    if (lane == 0 && cursor.is_before_new_row() && (!Shape::reads_again || newest < rows_known)) {
      claimer.advance(newest, cursor.piece, Cursor::pieces_of_stage(launch));
    }
    __syncwarp();
    const std::int64_t row = claims.row(cursor.row);
    const T* x = call.logits.template row<T>(row);
    const Layout layout = Layout::at(x, call.columns);
    const int slice = Shape::reads_again ? cursor.piece / launch.slices.pieces : rank;
    const int piece_of_slice = cursor.piece - (Shape::reads_again ? slice * launch.slices.pieces : 0);
    if (piece_of_slice == 0) {
      if constexpr (Loss::needs_label) label = label_of(row);
      if (lane == 0) {
        auto& slices = shared.slice[(Shape::reads_again ? cursor.sweep : cursor.row) % max_claims];
        slices[0] = slice_of_row(layout, oddity(layout, row), launch.slices, slice);
        slices[1] = slices[0].without_first_vector();
      }
    }
    const Piece piece = layout.piece(launch.slices, slice, piece_of_slice);
    Load load{cursor.ring.slot,
              reinterpret_cast<const uint4*>(x - layout.phase) + piece.first,
              nullptr,
              static_cast<std::uint32_t>(piece.count * 16),
              0,
              label,
              cursor.is_last_stage()};
    if constexpr (Loss::streams == 2) {
      // The granules that the same columns touch there.
      const T* t = call.teacher.template row<T>(row);
      const auto begin = reinterpret_cast<std::uintptr_t>(t + layout.first_column(piece)) & ~std::uintptr_t(15);
      const auto end = (reinterpret_cast<std::uintptr_t>(t + layout.end_column(piece)) + 15) & ~std::uintptr_t(15);
      load.t = reinterpret_cast<const void*>(begin);
      load.t_bytes = piece.count ? static_cast<std::uint32_t>(end - begin) : 0;
    }
    return load;
  }

  /// After the last row one slot is full without a piece, so that the consumers see the end; then nothing more happens.
  __device__ __forceinline__ void advance(Load& load, Cursor& cursor) {
    if (Shape::reads_again ? cursor.has_ended(rows_known) : cursor.row > rows_known) return;
    if (lane == 0) {
      Barrier* full = &shared.full[load.slot];
      unsigned char* region = ring + load.slot * launch.slot_bytes;
      if constexpr (Loss::needs_label) shared.label[load.slot] = load.label;
      arrive_expecting(full, load.x_bytes + load.t_bytes);
      const auto copy = [&](unsigned char* to, const void* from, std::uint32_t bytes) {
        if (!bytes) return;
        if constexpr (Shape::reads_again) {
          bulk_load_for_again(to, from, bytes, full, load.is_last_time);
        } else {
          bulk_load(to, from, bytes, full);
        }
      };
      copy(region, load.x, load.x_bytes);
      copy(region + launch.region_bytes, load.t, load.t_bytes);
    }
    if (!Shape::reads_again && cursor.row == rows_known) {
      ++cursor.row;
      return;
    }
    cursor.advance(launch, rows_known);
    if (Shape::reads_again && cursor.has_ended(rows_known)) return;
    load = prepare_load(cursor);
  }

  /// Which other streams of a row start at another offset within granules than the logits.
  __device__ __forceinline__ std::uint32_t oddity(const Layout& layout, std::int64_t row) const {
    const auto differs = [&](const T* other) { return Layout::at(other, 0).phase != layout.phase; };
    std::uint32_t odd = 0;
    if constexpr (Loss::streams == 2) {
      if (differs(call.teacher.template row<T>(row))) odd |= SliceOfRow::shifted;
    }
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
