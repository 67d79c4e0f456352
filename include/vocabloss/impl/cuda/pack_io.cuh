// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_PACK_IO_CUH
#define VOCABLOSS_IMPL_CUDA_PACK_IO_CUH

/// \file
/// \brief Between 16 bytes of storage and a pack of floats in registers: 8 columns of a 16-bit type, 4 of float.

#include <vocabloss/loss/pack.hpp>
#include <vocabloss/types.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace vocabloss::Impl {

/// Columns in a vector of 16 bytes.
template <class T>
inline constexpr int vector_columns = 16 / static_cast<int>(sizeof(T));

template <class T>
using VectorPack = loss::Pack<float, vector_columns<T>>;

/// What a storage type knows of the 32-bit words of a vector: two 16-bit values, the even column in the low half, or
/// one float. `Maximum` is a running maximum kept as stored, so that one instruction compares two columns; it passes
/// over NaN, which the sums carry instead. `low` is a word of columns whose probability is 0, finite where products of
/// it and 0 would otherwise be NaN.
template <class T>
struct WordOf;

template <>
struct WordOf<bfloat16> {
  using Maximum = __nv_bfloat162;
  static constexpr int columns = 2;
  static constexpr std::uint32_t low = 0xf14af14au;  // -1e30
  static __device__ __forceinline__ Maximum as_maximum(std::uint32_t word) {
    return *reinterpret_cast<const Maximum*>(&word);
  }
  static __device__ __forceinline__ Maximum larger(Maximum a, Maximum b) { return __hmax2(a, b); }
  static __device__ __forceinline__ float value(Maximum a) { return fmaxf(__low2float(a), __high2float(a)); }
  static __device__ __forceinline__ Maximum largest_or_nan(Maximum a, Maximum b) { return __hmax2_nan(a, b); }
  static __device__ __forceinline__ bool is_nan(Maximum a) { return __hneu2_mask(a, a) != 0; }
  static __device__ __forceinline__ void widen(std::uint32_t word, float* columns) {
    columns[0] = __uint_as_float(word << 16);
    columns[1] = __uint_as_float(word & 0xffff0000u);
  }
  static __device__ __forceinline__ std::uint32_t narrow(const float* columns) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(columns[0], columns[1]);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
};

template <>
struct WordOf<float16> {
  using Maximum = __half2;
  static constexpr int columns = 2;
  static constexpr std::uint32_t low = 0xfbfffbffu;  // -65504
  static __device__ __forceinline__ Maximum as_maximum(std::uint32_t word) {
    return *reinterpret_cast<const Maximum*>(&word);
  }
  static __device__ __forceinline__ Maximum larger(Maximum a, Maximum b) { return __hmax2(a, b); }
  static __device__ __forceinline__ float value(Maximum a) { return fmaxf(__low2float(a), __high2float(a)); }
  static __device__ __forceinline__ Maximum largest_or_nan(Maximum a, Maximum b) { return __hmax2_nan(a, b); }
  static __device__ __forceinline__ bool is_nan(Maximum a) { return __hneu2_mask(a, a) != 0; }
  static __device__ __forceinline__ void widen(std::uint32_t word, float* columns) {
    const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&word));
    columns[0] = pair.x;
    columns[1] = pair.y;
  }
  static __device__ __forceinline__ std::uint32_t narrow(const float* columns) {
    const __half2 pair = __floats2half2_rn(columns[0], columns[1]);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
};

template <>
struct WordOf<float> {
  using Maximum = float;
  static constexpr int columns = 1;
  static constexpr std::uint32_t low = 0xf14a0000u;  // -1e30
  static __device__ __forceinline__ Maximum largest_or_nan(Maximum a, Maximum b) {
    Maximum result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  }
  static __device__ __forceinline__ bool is_nan(Maximum a) { return a != a; }
  static __device__ __forceinline__ Maximum as_maximum(std::uint32_t word) { return __uint_as_float(word); }
  static __device__ __forceinline__ Maximum larger(Maximum a, Maximum b) { return fmaxf(a, b); }
  static __device__ __forceinline__ float value(Maximum a) { return a; }
  static __device__ __forceinline__ void widen(std::uint32_t word, float* columns) { *columns = __uint_as_float(word); }
  static __device__ __forceinline__ std::uint32_t narrow(const float* columns) { return __float_as_uint(*columns); }
};

template <class T>
__device__ __forceinline__ VectorPack<T> unpack(const uint4& vector) {
  constexpr int per_word = vector_columns<T> / 4;
  VectorPack<T> pack;
  WordOf<T>::widen(vector.x, pack.lane);
  WordOf<T>::widen(vector.y, pack.lane + per_word);
  WordOf<T>::widen(vector.z, pack.lane + 2 * per_word);
  WordOf<T>::widen(vector.w, pack.lane + 3 * per_word);
  return pack;
}

/// Rounds each column once, to nearest even.
template <class T>
__device__ __forceinline__ uint4 pack_vector(const VectorPack<T>& pack) {
  constexpr int per_word = vector_columns<T> / 4;
  return {WordOf<T>::narrow(pack.lane), WordOf<T>::narrow(pack.lane + per_word),
          WordOf<T>::narrow(pack.lane + 2 * per_word), WordOf<T>::narrow(pack.lane + 3 * per_word)};
}

/// Stores a vector at any address that T allows, in words as wide as the address does.
template <class T>
__device__ __forceinline__ void store_columns(T* to, const uint4& v) {
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  if (address % 16 == 0) {
    *reinterpret_cast<uint4*>(to) = v;
  } else if (address % 4 == 0) {
    auto* const words = reinterpret_cast<std::uint32_t*>(to);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
  } else if constexpr (sizeof(T) == 2) {
    auto* const halves = reinterpret_cast<std::uint16_t*>(to);
    auto* const words = reinterpret_cast<std::uint32_t*>(halves + 1);
    halves[0] = static_cast<std::uint16_t>(v.x);
    words[0] = __funnelshift_r(v.x, v.y, 16);
    words[1] = __funnelshift_r(v.y, v.z, 16);
    words[2] = __funnelshift_r(v.z, v.w, 16);
    halves[7] = static_cast<std::uint16_t>(v.w >> 16);
  }
}

/// Those of its columns that lie in [begin, end).
template <class T>
__device__ __forceinline__ void store_columns(T* to, const uint4& v, int begin, int end) {
  if (begin <= 0 && vector_columns<T> <= end) return store_columns(to, v);
  const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int j = 0; j < vector_columns<T>; ++j) {
    if (j < begin || j >= end) continue;
    if constexpr (sizeof(T) == 2) {
      reinterpret_cast<std::uint16_t*>(to)[j] = static_cast<std::uint16_t>(words[j / 2] >> (j % 2 * 16));
    } else {
      reinterpret_cast<std::uint32_t*>(to)[j] = words[j];
    }
  }
}

template <class T>
__device__ __forceinline__ bool holds_nan(const uint4& vector) {
  using Word = WordOf<T>;
  return Word::is_nan(
      Word::largest_or_nan(Word::largest_or_nan(Word::as_maximum(vector.x), Word::as_maximum(vector.y)),
                           Word::largest_or_nan(Word::as_maximum(vector.z), Word::as_maximum(vector.w))));
}

template <class T>
__device__ __forceinline__ typename WordOf<T>::Maximum largest_of_vector(const uint4& v) {
  using Word = WordOf<T>;
  return Word::larger(Word::larger(Word::as_maximum(v.x), Word::as_maximum(v.y)),
                      Word::larger(Word::as_maximum(v.z), Word::as_maximum(v.w)));
}

/// Columns before `begin` and from `end` on become those of `word`.
template <class T>
__device__ __forceinline__ void set_outside(uint4& vector, int begin, int end, std::uint32_t word) {
  using Word = WordOf<T>;
  std::uint32_t* const words[4] = {&vector.x, &vector.y, &vector.z, &vector.w};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
#pragma unroll
    for (int j = 0; j < Word::columns; ++j) {
      const int column = w * Word::columns + j;
      const std::uint32_t mask = Word::columns == 1 ? ~0u : 0xffffu << (16 * j);
      if (column < begin || column >= end) *words[w] = (*words[w] & ~mask) | (word & mask);
    }
  }
}

/// The largest column of some vectors that is not NaN.
template <class T, int Vectors>
__device__ __forceinline__ float largest_column(const uint4 (&vectors)[Vectors]) {
  using Word = WordOf<T>;
  typename Word::Maximum largest = largest_of_vector<T>(vectors[0]);
#pragma unroll
  for (int k = 1; k < Vectors; ++k) largest = Word::larger(largest, largest_of_vector<T>(vectors[k]));
  return fmaxf(-INFINITY, Word::value(largest));
}

}  // namespace vocabloss::Impl

#endif
