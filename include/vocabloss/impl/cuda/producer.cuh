// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_PRODUCER_CUH
#define VOCABLOSS_IMPL_CUDA_PRODUCER_CUH

/// \file
/// \brief The producer warp: fills the slots of the ring with pieces of rows, and sends finished gradients home.
///
/// Pieces go round the ring in row order. When the consumers are done with a slot, its gradient, which they wrote over
/// the logits, leaves by a bulk store. The slot is refilled one step later, once that store has been read from shared
/// memory: so the engine always has a store and a load to work on.

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
    Cursor load_cursor, store_cursor;
    Load load = prepare_load(load_cursor);
    for (int i = 0; i < launch.slots && load_cursor.row < rows_known; ++i) advance(load, load_cursor);
    while (store_cursor.row < rows_known) {
      const bool is_first = store_cursor.row == 0 && store_cursor.piece == 0;
      if constexpr (pass == Pass::forward) {
        wait(&shared.done[store_cursor.ring.slot], store_cursor.ring.parity);
        if (load_cursor.row < rows_known) advance(load, load_cursor);
      } else {
        const Store store = prepare_store(store_cursor);
        wait(&shared.done[store_cursor.ring.slot], store_cursor.ring.parity);
        send(store);
        if (!is_first && load_cursor.row < rows_known) {
          if (lane == 0) wait_for_bulk_reads<1>();
          advance(load, load_cursor);
        }
      }
      if (store_cursor.piece + 1 == launch.slices.pieces) claims.retire(store_cursor.row);
      store_cursor.advance(launch);
    }
    if (lane == 0) wait_for_bulk_stores();
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
      return {};
    }
    if (lane == 0) claimer.advance(cursor.row, cursor.piece, launch.slices.pieces);
    __syncwarp();
    const std::int64_t row = claims.row(cursor.row);
    if (Loss::needs_label && cursor.piece == 0) label = label_of(row);
    const T* x = call.logits.template row<T>(row);
    const Layout layout = Layout::at(x, call.columns);
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

  __device__ __forceinline__ void advance(Load& load, Cursor& cursor) {
    if (lane == 0) {
      Barrier* full = &shared.full[load.slot];
      unsigned char* region = ring + load.slot * launch.slot_bytes;
      if constexpr (Loss::needs_label) shared.label[load.slot] = load.label;
      arrive_expecting(full, load.x_bytes + load.t_bytes);
      if (load.x_bytes) bulk_load(region, load.x, load.x_bytes, full);
      if (load.t_bytes) bulk_load(region + launch.region_bytes, load.t, load.t_bytes, full);
    }
    cursor.advance(launch);
    load = prepare_load(cursor);
  }

  /// The label's column here, or no_label. The consumers need it early; whether the row counts, the exchange warp finds
  /// out. No branch depends on what is loaded, so that nobody waits for it before the copies are issued.
  __device__ __forceinline__ int label_of(std::int64_t row) const {
    const std::int64_t label = call.labels64.data ? call.labels64.at(row, 0) : call.labels32.at(row, -1);
    const std::int64_t local = label - call.first_column;
    return local >= 0 && local < call.columns ? static_cast<int>(local) : no_label;
  }

  /// The gradient lies in the slot at its own byte offset within granules: columns [begin, end) of the slot. Whole
  /// granules leave in bulk, the columns before and after them one a lane.
  struct Store {
    T* gradient;  ///< of column `begin`
    const T* source;
    int begin, end;
    int whole_begin, whole_end;
  };

  __device__ __forceinline__ Store prepare_store(const Cursor& cursor) const {
    const std::int64_t row = claims.row(cursor.row);
    const Layout layout = Layout::at(call.logits.template row<T>(row), call.columns);
    const Piece piece = layout.piece(launch.slices, rank, cursor.piece);
    Store store;
    store.gradient = call.gradient.template row<T>(row) + layout.first_column(piece);
    store.source = reinterpret_cast<const T*>(ring + cursor.ring.slot * launch.slot_bytes);
    store.begin = Layout::at(store.gradient, 0).phase;
    store.end = store.begin + (piece.count ? layout.end_column(piece) - layout.first_column(piece) : 0);
    store.whole_begin = (store.begin + columns_of_vector - 1) / columns_of_vector * columns_of_vector;
    store.whole_end = store.end / columns_of_vector * columns_of_vector;
    return store;
  }

  __device__ __forceinline__ void send(const Store& store) const {
    const int whole = store.whole_end - store.whole_begin;
    if (lane == 0) {
      if (whole > 0) {
        bulk_store(store.gradient + (store.whole_begin - store.begin), store.source + store.whole_begin,
                   static_cast<std::uint32_t>(whole * sizeof(T)));
      }
      commit_bulk_stores();
    }
    if (store.begin != store.whole_begin || store.end != store.whole_end) {
      if (lane < columns_of_vector) {
        const int i = store.begin + lane;
        if (i < store.whole_begin && i < store.end) store.gradient[i - store.begin] = store.source[i];
      } else if (lane < 2 * columns_of_vector) {
        const int i = max(store.whole_end, store.whole_begin) + lane - columns_of_vector;
        if (i < store.end) store.gradient[i - store.begin] = store.source[i];
      }
      __syncwarp();
    }
  }
};

}  // namespace vocabloss::Impl

#endif
