// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_PRODUCER_CUH
#define VOCABLOSS_IMPL_CUDA_PRODUCER_CUH

/// \file
/// \brief The producer warp: fills the slots of the ring with pieces of rows, in row order, as soon as the consumers
/// are done with what a slot held before.

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
  RowClaimer claimer;
  ClusterShared<Loss>& shared;
  unsigned char* ring;
  const int rank;
  const int lane;
  int label = no_label;      ///< of the row that is being loaded
  int rows_known = INT_MAX;  ///< until the last claim is seen

  /// The next piece of a sequence: the i-th of a row, and its slot.
  struct Cursor {
    int row = 0;
    int piece = 0;
    RingCursor ring;
    __device__ __forceinline__ void advance(const ClusterLaunch& launch) {
      ring.advance(launch.slots);
      if (++piece == launch.slices.pieces) {
        piece = 0;
        ++row;
      }
    }
  };

  __device__ void run() {
    Cursor load_cursor, freed;
    Load load = prepare_load(load_cursor);
    for (int i = 0; i < launch.slots; ++i) advance(load, load_cursor);
    for (; freed.row < rows_known; freed.advance(launch)) {
      wait(&shared.done[freed.ring.slot], freed.ring.parity);
      advance(load, load_cursor);
      if (freed.piece + 1 == launch.slices.pieces) claims.retire(freed.row);
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
  };

  __device__ __forceinline__ Load prepare_load(const Cursor& cursor) {
    if (cursor.row == 0 && cursor.piece == 0) {
      if (lane == 0) claimer.begin(launch.slices.pieces);
      __syncwarp();
    }
    if (cursor.piece == 0 && claims.wait_for(cursor.row) < 0) {
      rows_known = cursor.row;
      if (lane == 0)
        shared.slice[cursor.row % max_claims][0].vectors = shared.slice[cursor.row % max_claims][1].vectors = -1;
      return {.slot = cursor.ring.slot};
    }
    if (lane == 0) claimer.advance(cursor.row, cursor.piece, launch.slices.pieces);
    __syncwarp();
    const std::int64_t row = claims.row(cursor.row);
    const T* x = call.logits.template row<T>(row);
    const Layout layout = Layout::at(x, call.columns);
    if (cursor.piece == 0) {
      if constexpr (Loss::needs_label) label = label_of(row);
      if (lane == 0) {
        auto& slices = shared.slice[cursor.row % max_claims];
        slices[0] = slice_of_row(layout, oddity(layout, row), launch.slices, rank);
        slices[1] = slices[0].without_first_vector();
      }
    }
    const Piece piece = layout.piece(launch.slices, rank, cursor.piece);
    Load load{cursor.ring.slot,
              reinterpret_cast<const uint4*>(x - layout.phase) + piece.first,
              nullptr,
              static_cast<std::uint32_t>(piece.count * 16),
              0,
              label};
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
    if (cursor.row > rows_known) return;
    if (lane == 0) {
      Barrier* full = &shared.full[load.slot];
      unsigned char* region = ring + load.slot * launch.slot_bytes;
      if constexpr (Loss::needs_label) shared.label[load.slot] = load.label;
      arrive_expecting(full, load.x_bytes + load.t_bytes);
      if (load.x_bytes) bulk_load(region, load.x, load.x_bytes, full);
      if (load.t_bytes) bulk_load(region + launch.region_bytes, load.t, load.t_bytes, full);
    }
    if (cursor.row == rows_known) {
      ++cursor.row;
      return;
    }
    cursor.advance(launch);
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
