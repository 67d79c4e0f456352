// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_PACK_IO_HPP
#define VOCABLOSS_IMPL_PORTABLE_PACK_IO_HPP

/// \file
/// \brief Packs of columns between memory and registers: 16 bytes at a time where the address allows it.
///
/// A CPU loads vectors from any address, so on the host these are plain copies that the compiler turns into vector
/// moves. A GPU faults on a misaligned vector access: there the caller says whether the address is a multiple of 16
/// bytes.

#include <vocabloss/loss/pack.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Macros.hpp>

#include <cstdint>
#include <cstring>

namespace vocabloss::Impl {

inline constexpr int vector_bytes = 16;

/// What one vector access of a GPU moves.
struct alignas(vector_bytes) VectorWords {
  std::uint32_t word[4];
};

KOKKOS_INLINE_FUNCTION bool is_vector_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % vector_bytes == 0;
}

/// N values as stored. Kept as such in registers, because 16-bit values take half the room that their widened form
/// does.
template <class T, int N>
class StoredPack {
 public:
  static constexpr int vectors = N * int(sizeof(T)) / vector_bytes;
  static constexpr bool is_vectors = N * int(sizeof(T)) % vector_bytes == 0;

  KOKKOS_INLINE_FUNCTION void load(const T* from, bool aligned) {
    if constexpr (is_vectors) {
      if (aligned) {
        for (int v = 0; v < vectors; ++v) words_[v] = reinterpret_cast<const VectorWords*>(from)[v];
        return;
      }
    }
    for (int j = 0; j < N; ++j) set(j, from[j]);
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

 private:
  KOKKOS_INLINE_FUNCTION std::uint32_t word(int i) const { return words_[i / 4].word[i % 4]; }
  KOKKOS_INLINE_FUNCTION std::uint32_t& word(int i) { return words_[i / 4].word[i % 4]; }

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

// ---- host ----

#if defined(__GNUC__) && !defined(__CUDACC__)
#define VOCABLOSS_IMPL_VECTOR_TYPES 1
template <class Word, int N>
struct VectorOf {
  typedef Word type __attribute__((vector_size(sizeof(Word) * N)));
};
#endif

/// Integers to integers of another width in one vector instruction. In a plain loop that mixes both widths the compiler
/// works on half vectors, and joins them through memory.
template <class To, class From, int N>
inline void convert_words(To (&to)[N], const From (&from)[N]) {
#if defined(VOCABLOSS_IMPL_VECTOR_TYPES)
  if constexpr (N > 1 && (N & (N - 1)) == 0) {
    typename VectorOf<From, N>::type source;
    std::memcpy(&source, from, sizeof source);
    const auto result = __builtin_convertvector(source, typename VectorOf<To, N>::type);
    std::memcpy(to, &result, sizeof result);
    return;
  }
#endif
  for (int j = 0; j < N; ++j) to[j] = static_cast<To>(from[j]);
}

/// N values from any address, widened.
template <int N, class Real, class T>
inline void load_pack(loss::Pack<Real, N>& pack, const T* from) {
  if constexpr (sizeof(T) == 2) {
    std::uint16_t words[N];
    std::uint32_t wide[N];
    std::memcpy(words, from, sizeof words);
    convert_words(wide, words);
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) pack.lane[j] = Real(widen(T{static_cast<std::uint16_t>(wide[j])}));
  } else {
    T stored[N];
    std::memcpy(stored, from, sizeof stored);
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) pack.lane[j] = Real(widen(stored[j]));
  }
}

/// N values to any address, rounded once.
template <class T, int N, class Real>
inline void store_pack(T* to, const loss::Pack<Real, N>& pack) {
  if constexpr (sizeof(T) == 2) {
    std::uint16_t words[N];
    std::uint32_t wide[N];
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) wide[j] = narrow<T>(pack.lane[j]).bits;
    convert_words(words, wide);
    std::memcpy(to, words, sizeof words);
  } else {
    T stored[N];
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) stored[j] = narrow<T>(pack.lane[j]);
    std::memcpy(to, stored, sizeof stored);
  }
}

}  // namespace vocabloss::Impl

#endif
