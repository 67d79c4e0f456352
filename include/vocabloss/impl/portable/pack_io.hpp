// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_PACK_IO_HPP
#define VOCABLOSS_IMPL_PORTABLE_PACK_IO_HPP

/// \file
/// \brief Packs of columns between memory and registers of a CPU.
///
/// A CPU loads vectors from any address: these are plain copies that the compiler turns into vector moves. For a GPU
/// see stored_pack.hpp.

#include <vocabloss/loss/pack.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Macros.hpp>

#include <cstdint>
#include <cstring>

namespace vocabloss::Impl {

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
