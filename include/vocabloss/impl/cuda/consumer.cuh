// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CONSUMER_CUH
#define VOCABLOSS_IMPL_CUDA_CONSUMER_CUH

/// \file
/// \brief The consumer warps: statistics of the pieces of a row, then its gradient, written over the logits in the
/// slot.
///
/// A row passes through stages: one for each round of statistics, and the last, which writes the gradient. Between two
/// stages the row's statistics are exchanged; with a lag of 1 the next row's statistics are gathered meanwhile, so that
/// nobody waits, at the price of another row in the ring:
///
///     lag 0: gather 0 | gradient 0 | gather 1 | gradient 1 | ...
///     lag 1: gather 0 | gather 1 | gradient 0 | gather 2 | gradient 1 | ...
///
/// Warps never wait for one another: each leaves its merged state to the exchange warp and goes on.

#include <vocabloss/impl/cuda/piece_repair.cuh>
#include <vocabloss/impl/cuda/row_claims.cuh>
#include <vocabloss/loss/online_softmax.hpp>

#include <climits>
#include <cstddef>

namespace vocabloss::Impl {

template <class Loss, class T, Pass pass, class Shape>
struct Consumer {
  static constexpr int columns_of_vector = vector_columns<T>;
  static constexpr int threads = Shape::threads;
  static constexpr int lanes = Shape::lanes;
  static constexpr int gathering_stages = pass == Pass::backward ? 1 : Loss::rounds;
  using Layout = RowLayout<columns_of_vector, Shape::piece_vectors>;
  using Columns = loss::Columns<float, columns_of_vector>;
  using Statistics = typename Loss::Statistics;

  const Loss& loss;
  const RowCall<float>& call;
  const ClusterLaunch& launch;
  const RowClaims claims;
  ClusterShared<Loss>& shared;
  unsigned char* ring;
  const int rank;
  const int thread;
  const std::uint32_t ring_address;  ///< of this thread's first vector in slot 0
  const std::uint32_t shared_base;

  __device__ void run() {
    RingCursor cursor[gathering_stages + 1];
    const int lag = launch.lag, behind = gathering_stages * lag;
    int rows_known = INT_MAX;
    for (int step = 0; step - behind < rows_known; ++step) {
      if (step < rows_known) {
        const std::int64_t row = claims.wait_for(step);
        if (row < 0) {
          rows_known = step;
        } else if constexpr (pass == Pass::backward) {
          ask_for_statistics(step);
        } else {
          gather<0>(step, row, cursor[0]);
        }
      }
      if constexpr (gathering_stages == 2) {
        if (step >= lag && step - lag < rows_known) gather<1>(step - lag, claims.row(step - lag), cursor[1]);
      }
      if (step >= behind && step - behind < rows_known) {
        differentiate(step - behind, claims.row(step - behind), cursor[gathering_stages]);
        claims.retire(step - behind);
      }
    }
  }

 private:
  /// Where this thread's first vector of a slot's logits lies; the teacher's lies `region_bytes` further.
  __device__ __forceinline__ std::uint32_t address(const RingCursor& cursor) const {
    return ring_address + cursor.slot * slot_bytes<Loss, Shape>;
  }
  __device__ __forceinline__ void wait_until_full(const RingCursor& cursor) const {
    wait(shared_base + static_cast<std::uint32_t>(offsetof(ClusterShared<Loss>, full) + cursor.slot * sizeof(Barrier)),
         cursor.parity);
  }
  __device__ __forceinline__ void release(const RingCursor& cursor) const {
    if constexpr (pass != Pass::forward) order_before_bulk_copies();
    __syncwarp();
    if (thread % 32 == 0) {
      arrive(shared_base +
             static_cast<std::uint32_t>(offsetof(ClusterShared<Loss>, done) + cursor.slot * sizeof(Barrier)));
    }
  }

  // ---- statistics ---------------------------------------------------------------------------------------------------

  /// The exchange warp loads them, if not more than a lag ahead.
  __device__ __forceinline__ void ask_for_statistics(int i) const {
    if (thread % 32 == 0) arrive(&shared.first.gathered[RowSlot(i).index]);
  }

  template <int Round>
  __device__ __forceinline__ void gather(int i, std::int64_t row, RingCursor& cursor) {
    const RowSlot use(i);
    Statistics known{};
    if constexpr (Round > 0) {
      wait(&shared.template round<Round - 1>().ready[use.index], use.parity);
      known = shared.posted[use.index].statistics;
    }
    const Layout layout = Layout::at(call.logits.template row<T>(row), call.columns);
    const int vectors = layout.vectors_in(launch.slices, rank);
    const std::uint32_t odd = oddity(row, layout);
    auto state = Loss::template identity<Round, lanes>();
    float max_x = loss::empty_maximum<float>(), max_t = max_x;
    int first_column = layout.column_of(rank * launch.slices.slice_vectors + thread);
    int rest = vectors;
    for (int p = 0; p < launch.slices.pieces; ++p) {
      if constexpr (Round == 0) {
        wait_until_full(cursor);
        if (odd & (p == 0 || rest <= Shape::piece_vectors ? ragged | shifted : shifted)) repair(row, layout, p, cursor);
      }
      const int label = Loss::needs_label ? shared.label[cursor.slot] : -1;
      const std::uint32_t data = address(cursor);
      if (rest >= Shape::piece_vectors) {
        absorb<Round, Shape::vectors>(state, max_x, max_t, known, data, first_column, label);
      } else {
        for (int v = thread, k = 0; v < rest; v += threads, ++k) {
          absorb<Round, 1>(state, max_x, max_t, known, data + k * (threads * 16),
                           first_column + k * (threads * columns_of_vector), label);
        }
      }
      if constexpr (pass == Pass::forward && Round == Loss::rounds - 1) release(cursor);
      cursor.advance(launch.slots);
      first_column += Shape::piece_vectors * columns_of_vector;
      rest -= Shape::piece_vectors;
    }
    const auto merged = merge_warp<Round, lanes>(loss, state, max_x, max_t);
    if (thread % 32 == 0) {
      auto& buffers = shared.template round<Round>();
      buffers.warp_state[use.index][thread / 32] = to_words(merged);
      arrive(&buffers.gathered[use.index]);
    }
  }

  /// `Count` vectors, `threads` apart: the state is rescaled once for all of them.
  template <int Round, int Count, class State>
  __device__ __forceinline__ void absorb(State& state, float& max_x, float& max_t, const Statistics& known,
                                         std::uint32_t data, int first_column, int label) const {
    uint4 x[Count], t[Count];
    load<Count>(x, t, data);
    max_x = fmaxf(max_x, largest_column<T>(x));
    if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) max_t = fmaxf(max_t, largest_column<T>(t));
    loss.template raise<Round>(state, max_x, max_t);
    if constexpr (Loss::needs_label) {
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        loss.template accumulate<Round>(state, known, columns_of(x[k], t[k], first_column, k), label);
      }
    } else {
      // Nobody asks where the columns are: vectors make one pack, so that what the algebra does once a pack is done
      // less.
      constexpr int n = columns_of_vector, together = Count < Shape::vectors_in_pack ? Count : Shape::vectors_in_pack;
#pragma unroll
      for (int k = 0; k < Count; k += together) {
        loss::Columns<float, together * n> all;
#pragma unroll
        for (int i = 0; i < together; ++i) {
          const Columns some = columns_of(x[k + i], t[k + i], first_column, k);
#pragma unroll
          for (int j = 0; j < n; ++j) {
            all.x.lane[i * n + j] = some.x.lane[j];
            if constexpr (Loss::streams == 2) all.t.lane[i * n + j] = some.t.lane[j];
          }
        }
        all.first = first_column;
        loss.template accumulate<Round>(state, known, all, label);
      }
    }
  }

  template <int Count>
  __device__ __forceinline__ static void load(uint4 (&x)[Count], uint4 (&t)[Count], std::uint32_t data) {
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      x[k] = load_shared(data + k * (threads * 16));
      if constexpr (Loss::streams == 2) t[k] = load_shared(data + region_bytes<Shape> + k * (threads * 16));
    }
  }

  __device__ __forceinline__ static Columns columns_of(const uint4& x, const uint4& t, int first_column, int k) {
    Columns columns;
    columns.x = unpack<T>(x);
    if constexpr (Loss::streams == 2) columns.t = unpack<T>(t);
    columns.first = first_column + k * (threads * columns_of_vector);
    return columns;
  }

  // ---- gradient -----------------------------------------------------------------------------------------------------

  /// Forward only: waits all the same, which keeps the stages at most a lag apart.
  __device__ __forceinline__ void differentiate(int i, std::int64_t row, RingCursor& cursor) {
    const RowSlot use(i);
    wait(&shared.template round<Loss::rounds - 1>().ready[use.index], use.parity);
    if constexpr (pass == Pass::forward) return;
    const Posted<Loss>& posted = shared.posted[use.index];
    const auto gradient_row = posted.gradient_row;
    const int label = posted.label;
    const bool masked = posted.masked;
    const Layout layout = Layout::at(call.logits.template row<T>(row), call.columns);
    T* gradient = call.gradient.template row<T>(row);
    const bool plain = !masked && !call.gradient.accumulate;
    const std::uint32_t odd = oddity(row, layout) | (Layout::at(gradient, 0).phase != layout.phase ? moved : 0);
    int first_column = layout.column_of(rank * launch.slices.slice_vectors + thread);
    int rest = layout.vectors_in(launch.slices, rank);
    for (int p = 0; p < launch.slices.pieces; ++p) {
      if constexpr (pass == Pass::backward) {
        wait_until_full(cursor);
        if (odd & shifted) repair(row, layout, p, cursor);
      }
      const std::uint32_t data = address(cursor);
      if (rest >= Shape::piece_vectors && plain) {
        uint4 x[Shape::vectors], t[Shape::vectors];
        load<Shape::vectors>(x, t, data);
#pragma unroll
        for (int k = 0; k < Shape::vectors; ++k) {
          const auto result = loss.gradient(gradient_row, columns_of(x[k], t[k], first_column, k), label);
          store_shared(data + k * (threads * 16), pack_vector<T>(result));
        }
      } else {
        for (int v = thread, k = 0; v < min(rest, Shape::piece_vectors); v += threads, ++k) {
          uint4 x[1], t[1];
          load<1>(x, t, data + k * (threads * 16));
          const Columns columns = columns_of(x[0], t[0], first_column, k);
          auto result = loss.gradient(gradient_row, columns, label);
          if (masked) result = VectorPack<T>{};
          if (call.gradient.accumulate) add_to_old(result, gradient, columns.first, masked);
          store_shared(data + k * (threads * 16), pack_vector<T>(result));
        }
      }
      if (odd & moved) move_gradient(gradient, layout, p, cursor);
      release(cursor);
      cursor.advance(launch.slots);
      first_column += Shape::piece_vectors * columns_of_vector;
      rest -= Shape::piece_vectors;
    }
  }

  /// The sum is rounded once. A masked row keeps what it has.
  __device__ __forceinline__ void add_to_old(VectorPack<T>& result, const T* gradient, int first_column,
                                             bool masked) const {
    for (int j = 0; j < columns_of_vector; ++j) {
      const int column = first_column + j;
      if (column < 0 || column >= call.columns) continue;
      const float old = widen(gradient[column]);
      result.lane[j] = masked ? old : old + result.lane[j];
    }
  }

  // ---- odd rows -----------------------------------------------------------------------------------------------------

  static constexpr std::uint32_t ragged = 1;   ///< the ends of the row share vectors with its neighbours
  static constexpr std::uint32_t shifted = 2;  ///< the teacher starts at another offset within granules
  static constexpr std::uint32_t moved = 4;    ///< the gradient does

  __device__ __forceinline__ std::uint32_t oddity(std::int64_t row, const Layout& layout) const {
    std::uint32_t odd = layout.is_ragged() ? ragged : 0;
    if constexpr (Loss::streams == 2) {
      if (Layout::at(call.teacher.template row<T>(row), 0).phase != layout.phase) odd |= shifted;
    }
    asm volatile("" : "+r"(odd));  // found once a row, not once a piece
    return odd;
  }

  __device__ __forceinline__ T* region(const RingCursor& cursor, int stream) const {
    return reinterpret_cast<T*>(ring + cursor.slot * slot_bytes<Loss, Shape> + stream * region_bytes<Shape>);
  }

  /// By how many columns another stream of the piece lies further on in its region than the logits do.
  __device__ __forceinline__ static int offset_of(const T* other_row, const Layout& layout, const Piece& piece) {
    const int column = layout.first_column(piece);
    return Layout::at(other_row + column, 0).phase - (column - layout.column_of(piece.first));
  }

  __device__ __forceinline__ void repair(std::int64_t row, const Layout& layout, int p,
                                         const RingCursor& cursor) const {
    const Piece piece = layout.piece(launch.slices, rank, p);
    if (piece.count == 0) return;
    if constexpr (Loss::streams == 2) {
      const int offset = offset_of(call.teacher.template row<T>(row), layout, piece);
      if (offset != 0) shift_columns<T, Shape>(region(cursor, 1), offset, piece.count, thread);
    }
    if (!layout.is_ragged(piece)) return;
    neutralise_neighbours<T, Shape>(region(cursor, 0), layout, piece, -INFINITY, thread);
    if constexpr (Loss::streams == 2) {
      constexpr float neutral = Loss::teacher_is_logits ? -INFINITY : 0.0f;
      neutralise_neighbours<T, Shape>(region(cursor, 1), layout, piece, neutral, thread);
    }
  }

  /// To where the producer expects it: at its own offset within granules.
  __device__ __forceinline__ void move_gradient(const T* gradient, const Layout& layout, int p,
                                                const RingCursor& cursor) const {
    const Piece piece = layout.piece(launch.slices, rank, p);
    if (piece.count == 0) return;
    const int offset = offset_of(gradient, layout, piece);
    const int vectors = min(piece.count + 1, Shape::piece_vectors + 1);
    if (offset != 0) shift_columns<T, Shape>(region(cursor, 0), -offset, vectors, thread);
  }
};

}  // namespace vocabloss::Impl

#endif
