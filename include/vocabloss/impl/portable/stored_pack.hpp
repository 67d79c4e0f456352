// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_STORED_PACK_HPP
#define VOCABLOSS_IMPL_PORTABLE_STORED_PACK_HPP

/// \file
/// \brief Packs of columns as a GPU holds them: loaded and stored 16 bytes at a time where the address allows it.
///
/// A GPU faults on a misaligned vector access: the caller says whether the address is a multiple of 16 bytes.

#include <vocabloss/loss/pack.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Macros.hpp>

#if defined(__CUDACC__)
#include <vocabloss/impl/cuda/pack_io.cuh>
#endif

#include <cstdint>
#include <cstring>

namespace vocabloss::Impl {

inline constexpr int vector_bytes = 16;

/// Whether WordOf<T> works on the values of a 32-bit word together: on CUDA devices.
#if defined(__CUDA_ARCH__)
template <class T>
inline constexpr bool has_words = sizeof(T) <= 4;
#else
template <class T>
inline constexpr bool has_words = false;
#if !defined(__CUDACC__)
template <class T>
struct WordOf;
#endif
#endif

/// What one vector access of a GPU moves.
struct alignas(vector_bytes) VectorWords {
  std::uint32_t word[4];
};

KOKKOS_INLINE_FUNCTION bool is_vector_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % vector_bytes == 0;
}

/// N values as stored. Kept as such in registers, because 16-bit values take half the room that their widened form
/// does, and because CUDA compares and rounds two of them in one instruction.
template <class T, int N>
class StoredPack {
 public:
  static constexpr int vectors = N * int(sizeof(T)) / vector_bytes;
  static constexpr bool is_vectors = N * int(sizeof(T)) % vector_bytes == 0;
  static constexpr int words = 4 * vectors;

  KOKKOS_INLINE_FUNCTION void load(const T* from, bool aligned) {
    if constexpr (is_vectors) {
      if (aligned) {
        for (int v = 0; v < vectors; ++v) words_[v] = reinterpret_cast<const VectorWords*>(from)[v];
        return;
      }
    }
    for (int j = 0; j < N; ++j) set(j, from[j]);
  }
  /// The same of an aligned address whose values are not read again: a GPU's L2 may let go of them first.
  KOKKOS_INLINE_FUNCTION void load_last(const T* from) {
    static_assert(is_vectors);
    for (int v = 0; v < vectors; ++v) load_streaming(words_[v], reinterpret_cast<const VectorWords*>(from) + v);
  }
  KOKKOS_INLINE_FUNCTION void store(T* to, bool aligned) const {
    if constexpr (is_vectors) {
      if (aligned) {
        for (int v = 0; v < vectors; ++v) store_streaming(reinterpret_cast<VectorWords*>(to) + v, words_[v]);
        return;
      }
    }
    for (int j = 0; j < N; ++j) to[j] = get(j);
  }
  /// Rounds each value once.
  KOKKOS_INLINE_FUNCTION void set(const loss::Pack<Accumulate<T>, N>& pack) {
    if constexpr (is_vectors && has_words<T>) {
      for (int i = 0; i < words; ++i) word(i) = WordOf<T>::narrow(pack.lane + N / words * i);
    } else {
      for (int j = 0; j < N; ++j) set(j, narrow<T>(pack.lane[j]));
    }
  }
  KOKKOS_INLINE_FUNCTION T get(int j) const {
    if constexpr (sizeof(T) == 2) {
      return {static_cast<std::uint16_t>(word(j / 2) >> (16 * (j % 2)))};
    } else if constexpr (sizeof(T) == 4) {
      return float_of(word(j));
    } else {
      T value;
      const std::uint32_t halves[2] = {word(2 * j), word(2 * j + 1)};
      memcpy(&value, halves, sizeof value);
      return value;
    }
  }
  KOKKOS_INLINE_FUNCTION void set(int j, T value) {
    if constexpr (sizeof(T) == 2) {
      const int shift = 16 * (j % 2);
      word(j / 2) = (word(j / 2) & (0xffff0000u >> shift)) | (static_cast<std::uint32_t>(value.bits) << shift);
    } else if constexpr (sizeof(T) == 4) {
      word(j) = bits_of(value);
    } else {
      std::uint32_t halves[2];
      memcpy(halves, &value, sizeof value);
      word(2 * j) = halves[0];
      word(2 * j + 1) = halves[1];
    }
  }
  KOKKOS_INLINE_FUNCTION std::uint32_t word(int i) const { return words_[i / 4].word[i % 4]; }

 private:
  KOKKOS_INLINE_FUNCTION std::uint32_t& word(int i) { return words_[i / 4].word[i % 4]; }

  KOKKOS_INLINE_FUNCTION static void load_streaming(VectorWords& words, const VectorWords* from) {
#if defined(__CUDA_ARCH__)
    const uint4 vector = __ldcs(reinterpret_cast<const uint4*>(from));
    words = {{vector.x, vector.y, vector.z, vector.w}};
#else
    words = *from;
#endif
  }
  /// The gradient is not read again: it should not push rows out of a GPU's L2.
  KOKKOS_INLINE_FUNCTION static void store_streaming(VectorWords* to, const VectorWords& words) {
#if defined(__CUDA_ARCH__)
    __stcs(reinterpret_cast<uint4*>(to), make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]));
#else
    *to = words;
#endif
  }

  VectorWords words_[vectors > 0 ? vectors : 1] = {};
};

/// The largest value of some packs, or any other where one is NaN: found two 16-bit values at a time on CUDA.
template <class T, int N, int count>
KOKKOS_INLINE_FUNCTION Accumulate<T> largest_of(const StoredPack<T, N> (&packs)[count]) {
  if constexpr (StoredPack<T, N>::is_vectors && has_words<T>) {
    using Word = WordOf<T>;
    constexpr int words = StoredPack<T, N>::words;
    typename Word::Maximum part[count * words];
    for (int i = 0; i < count * words; ++i) part[i] = Word::as_maximum(packs[i / words].word(i % words));
    for (int n = count * words; n > 1; n -= n / 2) {
      for (int i = 0; i < n / 2; ++i) part[i] = Word::larger(part[i], part[i + n - n / 2]);
    }
    return Word::value(part[0]);
  } else {
    Accumulate<T> maximum = widen(packs[0].get(0));
    for (int i = 1; i < count * N; ++i) maximum = loss::larger(maximum, Accumulate<T>(widen(packs[i / N].get(i % N))));
    return maximum;
  }
}

template <class T, int N>
KOKKOS_INLINE_FUNCTION bool holds_nan(const StoredPack<T, N>& pack) {
  if constexpr (StoredPack<T, N>::is_vectors && has_words<T>) {
    using Word = WordOf<T>;
    auto any = Word::as_maximum(pack.word(0));
    for (int i = 1; i < StoredPack<T, N>::words; ++i) any = Word::largest_or_nan(any, Word::as_maximum(pack.word(i)));
    return Word::is_nan(any);
  } else {
    bool result = false;
    for (int j = 0; j < N; ++j) result = result || widen(pack.get(j)) != widen(pack.get(j));
    return result;
  }
}

}  // namespace vocabloss::Impl

#endif
