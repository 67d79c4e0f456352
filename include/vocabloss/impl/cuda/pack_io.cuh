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

/// The largest column of some vectors.
template <class T, int Vectors>
__device__ __forceinline__ float largest_column(const uint4 (&vectors)[Vectors]) {
  using Word = WordOf<T>;
  typename Word::Maximum maximum = largest_of_vector<T>(vectors[0]);
#pragma unroll
  for (int k = 1; k < Vectors; ++k) maximum = Word::larger(maximum, largest_of_vector<T>(vectors[k]));
  return Word::value(maximum);
}

}  // namespace vocabloss::Impl

#endif
