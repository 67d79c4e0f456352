// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_STREAMING_STORE_HPP
#define VOCABLOSS_IMPL_PORTABLE_STREAMING_STORE_HPP

/// \file
/// \brief Host: vector stores that go past the caches, for a gradient too large to stay in them.
///
/// An ordinary store first reads the line that it will overwrite. On two cores of an EPYC 9004 streaming shortened
/// label cross-entropy, float, 256 x 32768, forward and backward, from 7.1 to 4.9 ms of one core; losses with two
/// streams, which compute more a byte, gained nothing and lost nothing.

#include <cstring>

#if defined(__AVX__) && !defined(__CUDACC__)
#include <immintrin.h>
#define VOCABLOSS_IMPL_STREAMING_STORES 1
#endif

namespace vocabloss::Impl {

#if defined(VOCABLOSS_IMPL_STREAMING_STORES)
inline constexpr bool has_streaming_stores = true;

/// `to` is aligned to `bytes`, a multiple of 32.
template <int bytes>
inline void store_streaming(void* to, const void* from) {
#if defined(__AVX512F__)
  if constexpr (bytes % 64 == 0) {
    for (int i = 0; i < bytes / 64; ++i) {
      _mm512_stream_si512(static_cast<__m512i*>(to) + i, _mm512_loadu_si512(static_cast<const __m512i*>(from) + i));
    }
    return;
  }
#endif
  for (int i = 0; i < bytes / 32; ++i) {
    _mm256_stream_si256(static_cast<__m256i*>(to) + i, _mm256_loadu_si256(static_cast<const __m256i*>(from) + i));
  }
}

/// Streaming stores are weakly ordered: other threads may rely on them only after this.
inline void finish_streaming() { _mm_sfence(); }

#else
inline constexpr bool has_streaming_stores = false;

template <int bytes>
inline void store_streaming(void* to, const void* from) {
  std::memcpy(to, from, bytes);
}
inline void finish_streaming() {}
#endif

}  // namespace vocabloss::Impl

#endif
