// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_HOST_ROW_HPP
#define VOCABLOSS_IMPL_PORTABLE_HOST_ROW_HPP

/// \file
/// \brief One row by one CPU thread: tiles that stay in the first cache, packs that become vector code.
///
/// Per tile two short loops: the maxima of its packs, then, after one rescaling of the state, their exponentials. The
/// second finds the tile in the first cache. The gradient walks the tiles from the end of the row, which the statistics
/// left in the second cache.

#include <vocabloss/impl/portable/pack_io.hpp>
#include <vocabloss/impl/portable/streaming_store.hpp>
#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/loss/concept.hpp>
#include <vocabloss/loss/online_softmax.hpp>

#include <cstdint>

namespace vocabloss::Impl {

/// \tparam Teacher  how the second stream is stored: a template parameter, so that no loop over packs branches on it
template <class Loss, class Logit, class Teacher>
class HostRow {
 public:
  using Real = typename Loss::Real;
  using Statistics = typename Loss::Statistics;
  /// Lanes of a pack: a cache line of Reals.
  static constexpr int lanes = 64 / sizeof(Real);

  HostRow(const Loss& loss, const RowCall<Real>& call, std::int64_t row, int tile)
      : loss_(loss),
        logits_(call.logits.template row<Logit>(row)),
        teacher_(Loss::streams == 2 ? call.teacher.template row<Teacher>(row) : nullptr),
        columns_(call.columns),
        body_(columns_ - columns_ % lanes),
        tile_(tile),
        gradient_outgrows_cache_(call.rows * columns_ * size_of(call.gradient.type) > cache_bytes) {}

  template <int Round>
  void find_statistics(Statistics& statistics, int label) const {
    loss_.template finish<Round>(statistics, find_state<Round>(statistics, label));
  }

  template <int Round>
  typename Loss::template State<Round> find_state(const Statistics& statistics, int label) const {
    auto state = Loss::template identity<Round, lanes>();
    Real max_x = loss::empty_maximum<Real>();
    Real max_t = max_x;
    for (std::int64_t first = 0; first < body_; first += tile_) {
      const std::int64_t end = first + tile_ < body_ ? first + tile_ : body_;
      find_maxima<Round>(max_x, max_t, first, end);
      loss_.template raise<Round>(state, max_x, max_t);
      if constexpr (requires { loss_.template add<Round>(state, state); }) {
        // A tile is summed on its own: in one sum over a long row the small terms would drown in the large ones.
        auto tile = Loss::template identity<Round, lanes>();
        loss_.template raise<Round>(tile, max_x, max_t);
        accumulate<Round>(tile, statistics, first, end, label);
        state = loss_.template add<Round>(state, tile);
      } else {
        accumulate<Round>(state, statistics, first, end, label);
      }
    }
    for (std::int64_t c = body_; c < columns_; ++c) {
      loss::absorb<Round>(loss_, state, statistics, load<1>(c), label);
    }
    return Loss::template collapse<Round, lanes>(state);
  }

  template <class Gradient>
  void write_gradient(const Statistics& statistics, const loss::Row<Real>& row, Gradient* gradient,
                      bool accumulate) const {
    if (accumulate) return write<Store::add>(statistics, row, gradient);
    constexpr int bytes = lanes * sizeof(Gradient);
    if constexpr (has_streaming_stores && bytes % 32 == 0) {
      const bool in_place = static_cast<const void*>(gradient) == static_cast<const void*>(logits_);
      const bool aligned = reinterpret_cast<std::uintptr_t>(gradient) % bytes == 0;
      if (gradient_outgrows_cache_ && !in_place && aligned) {
        write<Store::streaming>(statistics, row, gradient);
        return finish_streaming();
      }
    }
    write<Store::plain>(statistics, row, gradient);
  }

 private:
  enum class Store { plain, streaming, add };

  /// A gradient of more bytes is written past the caches: it would push out what they hold, and be gone when needed.
  static constexpr std::int64_t cache_bytes = std::int64_t(16) << 20;

  template <Store how, class Gradient>
  void write(const Statistics& statistics, const loss::Row<Real>& row, Gradient* gradient) const {
    const auto slope = loss_.gradient_row(statistics, row);
    constexpr Store one_by_one = how == Store::add ? Store::add : Store::plain;
    for (std::int64_t c = body_; c < columns_; ++c) {
      store<one_by_one>(gradient + c, loss_.gradient(slope, load<1>(c), row.label));
    }
    for (std::int64_t first = (body_ - 1) / tile_ * tile_; body_ > 0 && first >= 0; first -= tile_) {
      const std::int64_t end = first + tile_ < body_ ? first + tile_ : body_;
      for (std::int64_t c = first; c < end; c += lanes) {
        store<how>(gradient + c, loss_.gradient(slope, load<lanes>(c), row.label));
      }
    }
  }

  template <int N>
  loss::Columns<Real, N> load(std::int64_t first) const {
    loss::Columns<Real, N> columns;
    load_pack<N>(columns.x, logits_ + first);
    if constexpr (Loss::streams == 2) load_pack<N>(columns.t, teacher_ + first);
    columns.first = static_cast<int>(first);
    return columns;
  }

  template <Store how, int N, class Gradient>
  static void store(Gradient* to, loss::Pack<Real, N> pack) {
    if constexpr (how == Store::streaming) {
      Gradient stored[N];
      store_pack(stored, pack);
      return store_streaming<N * sizeof(Gradient)>(to, stored);
    } else if constexpr (how == Store::add) {
      loss::Pack<Real, N> before;
      load_pack<N>(before, to);
      VOCABLOSS_VECTOR_LOOP
      for (int j = 0; j < N; ++j) pack.lane[j] += before.lane[j];
    }
    store_pack(to, pack);
  }

  template <int Round, class State>
  void accumulate(State& state, const Statistics& statistics, std::int64_t first, std::int64_t end, int label) const {
    for (std::int64_t c = first; c < end; c += lanes) {
      loss_.template accumulate<Round>(state, statistics, load<lanes>(c), label);
    }
  }

  /// Of this tile and those before. Rounds after the first know the maxima.
  template <int Round>
  void find_maxima(Real& max_x, Real& max_t, std::int64_t first, std::int64_t end) const {
    if constexpr (Round == 0) {
      max_x = loss::larger(max_x, largest_of(logits_, first, end));
      if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) {
        max_t = loss::larger(max_t, largest_of(teacher_, first, end));
      }
    }
  }

  template <class T>
  static Real largest_of(const T* values, std::int64_t first, std::int64_t end) {
    loss::Pack<Real, lanes> most, pack;
    load_pack<lanes>(most, values + first);
    for (std::int64_t c = first + lanes; c < end; c += lanes) {
      load_pack<lanes>(pack, values + c);
      VOCABLOSS_VECTOR_LOOP
      for (int j = 0; j < lanes; ++j) most.lane[j] = loss::larger(most.lane[j], pack.lane[j]);
    }
    return loss::largest(most);
  }

  const Loss& loss_;
  const Logit* logits_;
  const Teacher* teacher_;
  std::int64_t columns_;
  std::int64_t body_;  ///< columns in whole packs
  std::int64_t tile_;
  bool gradient_outgrows_cache_;
};

}  // namespace vocabloss::Impl

#endif
