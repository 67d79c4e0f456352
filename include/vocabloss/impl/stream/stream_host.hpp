// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_STREAM_STREAM_HOST_HPP
#define VOCABLOSS_IMPL_STREAM_STREAM_HOST_HPP

/// \file
/// \brief The streaming kernels of a host: a vectorised loop over pieces of rows, with ordinary stores or with stores
/// that pass the caches by (no read for ownership, which costs a third of the traffic of 1R1W).

#include <vocabloss/impl/stream/stream_problem.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace vocabloss::Impl {

#if defined(__SSE2__)
inline constexpr bool has_non_temporal_stores = true;
#else
inline constexpr bool has_non_temporal_stores = false;
#endif

/// Sources xored into at most two destinations, `words` 8-byte words each, a multiple of 2.
struct StreamPiece {
  const std::uint64_t* source[2 * StreamProblem::most_reads];
  int sources = 0;
  std::uint64_t* destination[2];
  int destinations = 0;
  std::int64_t words = 0;
};

template <bool non_temporal>
inline void store_words(const std::uint64_t* from, std::uint64_t* to, std::int64_t words) {
#if defined(__SSE2__)
  if constexpr (non_temporal) {
    for (std::int64_t k = 0; k < words; k += 2) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), _mm_load_si128(reinterpret_cast<const __m128i*>(from + k)));
    }
    return;
  }
#endif
  for (std::int64_t k = 0; k < words; ++k) to[k] = from[k];
}

template <bool non_temporal>
inline void stream_piece(const StreamPiece& piece) {
  constexpr std::int64_t block = 64;  // 512 bytes of each stream
  alignas(64) std::uint64_t mixed[block];
  for (std::int64_t first = 0; first < piece.words; first += block) {
    const std::int64_t words = std::min(block, piece.words - first);
    for (std::int64_t k = 0; k < words; ++k) mixed[k] = piece.source[0][first + k];
    for (int s = 1; s < piece.sources; ++s) {
      const std::uint64_t* source = piece.source[s] + first;
      for (std::int64_t k = 0; k < words; ++k) mixed[k] ^= source[k];
    }
    for (int d = 0; d < piece.destinations; ++d) {
      store_words<non_temporal>(mixed, piece.destination[d] + first, words);
    }
#if defined(__GNUC__)
    asm volatile("" : : "m"(mixed));  // what was read counts as used even where nothing is written
#endif
  }
}

template <bool non_temporal, class Exec>
void stream_on_host(const Exec& exec, const StreamUnits& all) {
  constexpr std::int64_t piece_units = 4096;  // 64 KiB of the narrowest stream
  const std::int64_t pieces_of_row = (all.units + piece_units - 1) / piece_units;
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for("VocabLoss::stream", Policy(exec, 0, all.rows * pieces_of_row), [=](const std::int64_t tile) {
    const std::int64_t i = tile / pieces_of_row;
    const std::int64_t first = tile % pieces_of_row * piece_units;
    StreamPiece piece;
    piece.words = std::min(piece_units, all.units - first) * 2;
    for (int r = 0; r < all.reads; ++r) {
      const auto* row = reinterpret_cast<const std::uint64_t*>(all.read[r].row(i)) + first * all.read[r].ratio * 2;
      for (int part = 0; part < all.read[r].ratio; ++part) piece.source[piece.sources++] = row + part * piece.words;
    }
    if (all.write.data) {
      auto* row = reinterpret_cast<std::uint64_t*>(all.write.row(i)) + first * all.write.ratio * 2;
      for (int part = 0; part < all.write.ratio; ++part) {
        piece.destination[piece.destinations++] = row + part * piece.words;
      }
    }
    stream_piece<non_temporal>(piece);
#if defined(__SSE2__)
    if constexpr (non_temporal) _mm_sfence();
#endif
  });
}

}  // namespace vocabloss::Impl

#endif
