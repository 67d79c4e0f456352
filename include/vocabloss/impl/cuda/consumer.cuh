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
#include <vocabloss/loss/concept.hpp>
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
    const std::uint32_t odd = oddity(row, layout);
    typename Loss::template State<Round> merged;
    const RingCursor start = cursor;
    if constexpr (sums_plainly<Round>) {
      if (!gather_plainly<Round>(merged, row, layout, odd, known, cursor)) {
        RingCursor again = start;
        merged = gather_exactly<Round, true>(row, layout, odd, known, again);
      }
    } else {
      merged = gather_exactly<Round, false>(row, layout, odd, known, cursor);
    }
    if (thread % 32 == 0) {
      auto& buffers = shared.template round<Round>();
      buffers.warp_state[use.index][thread / 32] = to_words(merged);
      arrive(&buffers.gathered[use.index]);
    }
  }

  /// The warp's share of a row's statistics. `again`: its pieces were waited for and mended before.
  template <int Round, bool again>
  __device__ __forceinline__ auto gather_exactly(std::int64_t row, const Layout& layout, std::uint32_t odd,
                                                 const Statistics& known, RingCursor& cursor) {
    auto state = Loss::template identity<Round, lanes>();
    float max_x = loss::empty_maximum<float>(), max_t = max_x;
    int first_column = layout.column_of(rank * launch.slices.slice_vectors + thread);
    int rest = layout.vectors_in(launch.slices, rank);
    for (int p = 0; p < launch.slices.pieces; ++p) {
      if constexpr (!again) await<Round>(row, layout, odd, p, rest, cursor);
      const int label = Loss::needs_label ? shared.label[cursor.slot] : no_label;
      const std::uint32_t data = address(cursor);
      if (rest >= Shape::piece_vectors && !again) {
        absorb<Round, Shape::vectors>(state, max_x, max_t, known, data, first_column, label);
      } else {
        for (int v = thread, k = 0; v < min(rest, Shape::piece_vectors); v += threads, ++k) {
          absorb<Round, 1>(state, max_x, max_t, known, data + k * (threads * 16),
                           first_column + k * (threads * columns_of_vector), label);
        }
      }
      if constexpr (pass == Pass::forward && Round == Loss::rounds - 1) release(cursor);
      cursor.advance(launch.slots);
      first_column += Shape::piece_vectors * columns_of_vector;
      rest -= Shape::piece_vectors;
    }
    return merge_warp<Round, lanes>(loss, state, max_x, max_t);
  }

  template <int Round>
  __device__ __forceinline__ void await(std::int64_t row, const Layout& layout, std::uint32_t odd, int p, int rest,
                                        const RingCursor& cursor) const {
    if constexpr (Round == 0) {
      wait_until_full(cursor);
      if (odd & (p == 0 || rest <= Shape::piece_vectors ? ragged | shifted : shifted)) repair(row, layout, p, cursor);
    }
  }

  /// Whether the loss offers what concept.hpp says for kernels that count instructions. It may have to look at the row
  /// again, which a forward pass has released by then.
  template <int Round>
  static constexpr bool sums_plainly = loss::SumsPlainly<Loss, Round>&& pass == Pass::forward_backward;

  /// The same in fewer instructions, and none of them a branch: columns at a maximum go into the sums like all others.
  /// False, seldom: that cost digits of a row that one column decides, or an infinite term was among them.
  template <int Round>
  __device__ __forceinline__ bool gather_plainly(typename Loss::template State<Round>& merged, std::int64_t row,
                                                 const Layout& layout, std::uint32_t odd, const Statistics& known,
                                                 RingCursor& cursor) {
    constexpr loss::KeptApart has = Loss::template kept_apart<Round>;
    constexpr bool has_max_t = Loss::streams == 2 && Loss::teacher_is_logits;
    constexpr int n = columns_of_vector;
    loss::PlainSums<float> sums;
    float label_logit = 0;
    int first_column = layout.column_of(rank * launch.slices.slice_vectors + thread);
    int rest = layout.vectors_in(launch.slices, rank);
    for (int p = 0; p < launch.slices.pieces; ++p) {
      await<Round>(row, layout, odd, p, rest, cursor);
      const std::uint32_t data = address(cursor);
      const bool is_ragged = odd & ragged && (p == 0 || rest <= Shape::piece_vectors);
      if (rest >= Shape::piece_vectors) {
        absorb_plainly<Round, Shape::vectors>(sums, known, data, first_column, is_ragged);
      } else {
        for (int v = thread, k = 0; v < rest; v += threads, ++k) {
          absorb_plainly<Round, 1>(sums, known, data + k * (threads * 16), first_column + k * (threads * n), is_ragged);
        }
      }
      if constexpr (Loss::needs_label) {
        const unsigned ahead = static_cast<unsigned>(shared.label[cursor.slot]) - static_cast<unsigned>(first_column);
        const int vector = thread + static_cast<int>(ahead / (threads * n)) * threads;
        if (ahead < Shape::piece_vectors * n && ahead % (threads * n) < n && vector < rest) {
          label_logit = widen(region(cursor, 0)[vector * n + ahead % n]);
        }
      }
      cursor.advance(launch.slots);
      first_column += Shape::piece_vectors * n;
      rest -= Shape::piece_vectors;
    }
    if constexpr (has.maxima) {
      const float max_t = has_max_t ? largest_of_warp(sums.t.maximum) : 0.0f;
      loss.template raise_plainly<Round>(sums, largest_of_warp(sums.x.maximum), max_t);
    }
    sums.x.sum = sum_of_warp(sums.x.sum);
    if constexpr (Loss::streams == 2) sums.t.sum = sum_of_warp(sums.t.sum);
    if constexpr (has.weighted) sums.weighted = sum_of_warp(sums.weighted);
    float low[WordOf<T>::columns];
    WordOf<T>::widen(WordOf<T>::low, low);
    merged = loss.template from_plain<Round>(sums, known);
    if constexpr (Loss::needs_label) loss.note_label(merged, sum_of_warp(label_logit));
    return loss.template is_good<Round>(sums, known, low[0]);
  }

  template <int Round, int Count>
  __device__ __forceinline__ void absorb_plainly(loss::PlainSums<float>& sums, const Statistics& known,
                                                 std::uint32_t data, int first_column, bool is_ragged) const {
    constexpr int n = columns_of_vector;
    constexpr bool is_two = Loss::streams == 2, has_max_t = is_two && Loss::teacher_is_logits;
    uint4 x[Count], t[Count];
    load<Count>(x, t, data);
    if constexpr (Loss::template kept_apart<Round>.maxima) {
      loss.template raise_plainly<Round>(sums, largest_column<T>(x), has_max_t ? largest_column<T>(t) : 0.0f);
    }
    if (is_ragged) {
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        const int first = first_column + k * (threads * n);
        if (first >= 0 && first + n <= call.columns) continue;
        lower_outside<T>(x[k], -first, call.columns - first);
        if constexpr (has_max_t) lower_outside<T>(t[k], -first, call.columns - first);
      }
    }
    loss::Columns<float, Count * n> all;
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      const Columns some = columns_of(x[k], t[k], first_column, k);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        all.x.lane[k * n + j] = some.x.lane[j];
        if constexpr (is_two) all.t.lane[k * n + j] = some.t.lane[j];
      }
    }
    all.first = first_column;
    loss.template sum_plainly<Round>(sums, known, all);
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
    bool is_plain_row = false;
    if constexpr (has_plain_gradient) is_plain_row = loss.has_plain_gradient(gradient_row);
    const std::uint32_t odd = oddity(row, layout) | (Layout::at(gradient, 0).phase != layout.phase ? moved : 0);
    int first_column = layout.column_of(rank * launch.slices.slice_vectors + thread);
    int rest = layout.vectors_in(launch.slices, rank);
    for (int p = 0; p < launch.slices.pieces; ++p) {
      if constexpr (pass == Pass::backward) {
        wait_until_full(cursor);
        if (odd & shifted) repair(row, layout, p, cursor);
      }
      const std::uint32_t data = address(cursor);
      const bool is_whole = rest >= Shape::piece_vectors && plain;
      unsigned slow = 0;  // vectors that go one by one
      if (is_whole) {
        if constexpr (has_plain_gradient) {
          slow = is_plain_row ? store_plain_gradient(gradient_row, data, first_column, label) : all_vectors;
        } else {
          uint4 x[Shape::vectors], t[Shape::vectors];
          load<Shape::vectors>(x, t, data);
#pragma unroll
          for (int k = 0; k < Shape::vectors; ++k) {
            const auto result = loss.gradient(gradient_row, columns_of(x[k], t[k], first_column, k), label);
            store_shared(data + k * (threads * 16), pack_vector<T>(result));
          }
        }
      } else {
        slow = all_vectors;
      }
      for (int k = 0; slow != 0; slow >>= 1, ++k) {
        if (thread + k * threads >= rest) break;
        if (!(slow & 1)) continue;
        uint4 x[1], t[1];
        load<1>(x, t, data + k * (threads * 16));
        const Columns columns = columns_of(x[0], t[0], first_column, k);
        auto result = loss.gradient(gradient_row, columns, label);
        if (masked) result = VectorPack<T>{};
        if (call.gradient.accumulate) add_to_old(result, gradient, columns.first, masked);
        store_shared(data + k * (threads * 16), pack_vector<T>(result));
      }
      if (odd & moved) move_gradient(gradient, layout, p, cursor);
      release(cursor);
      cursor.advance(launch.slots);
      first_column += Shape::piece_vectors * columns_of_vector;
      rest -= Shape::piece_vectors;
    }
  }

  static constexpr unsigned all_vectors = (1u << Shape::vectors) - 1;
  static constexpr bool has_plain_gradient = loss::HasPlainGradient<Loss>;

  /// A whole piece in fewer instructions. Returns the vectors that it left alone, a bit each: they need the loss's
  /// `gradient`.
  template <class GradientRow>
  __device__ __forceinline__ unsigned store_plain_gradient(const GradientRow& gradient_row, std::uint32_t data,
                                                           int first_column, int label) const {
    constexpr int n = columns_of_vector;
    uint4 x[Shape::vectors], t[Shape::vectors];
    load<Shape::vectors>(x, t, data);
    unsigned slow = 0;
    if constexpr (requires { loss.is_at_maximum(gradient_row, 0.0f, 0.0f); }) {
      if (loss.cares_for_maxima(gradient_row)) {
#pragma unroll
        for (int k = 0; k < Shape::vectors; ++k) {
          const uint4 one_x[1] = {x[k]}, one_t[1] = {t[k]};
          const float of_vector_t = Loss::teacher_is_logits ? largest_column<T>(one_t) : 0.0f;
          if (loss.is_at_maximum(gradient_row, largest_column<T>(one_x), of_vector_t)) slow |= 1u << k;
        }
      }
    }
    if constexpr (Loss::needs_label) {
      const unsigned ahead = static_cast<unsigned>(label) - static_cast<unsigned>(first_column);
      if (ahead < Shape::vectors * threads * n && ahead % (threads * n) < n) slow |= 1u << (ahead / (threads * n));
    }
#pragma unroll
    for (int k = 0; k < Shape::vectors; ++k) {
      const uint4 result = pack_vector<T>(loss.plain_gradient(gradient_row, columns_of(x[k], t[k], first_column, k)));
      if constexpr (Loss::plain_gradient_may_be_nan) {
        if (holds_nan<T>(result)) slow |= 1u << k;
      }
      if (!(slow >> k & 1)) store_shared(data + k * (threads * 16), result);
    }
    return slow;
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
