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
/// over NaN, which the sums carry instead.
template <class T>
struct WordOf;

template <>
struct WordOf<bfloat16> {
  using Maximum = __nv_bfloat162;
  static __device__ __forceinline__ Maximum as_maximum(std::uint32_t word) {
    return *reinterpret_cast<const Maximum*>(&word);
  }
  static __device__ __forceinline__ Maximum larger(Maximum a, Maximum b) { return __hmax2(a, b); }
  static __device__ __forceinline__ float value(Maximum a) { return fmaxf(__low2float(a), __high2float(a)); }
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
  static __device__ __forceinline__ Maximum as_maximum(std::uint32_t word) {
    return *reinterpret_cast<const Maximum*>(&word);
  }
  static __device__ __forceinline__ Maximum larger(Maximum a, Maximum b) { return __hmax2(a, b); }
  static __device__ __forceinline__ float value(Maximum a) { return fmaxf(__low2float(a), __high2float(a)); }
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

/// The largest column of some vectors.
template <class T, int Vectors>
__device__ __forceinline__ float largest_column(const uint4 (&vectors)[Vectors]) {
  using Word = WordOf<T>;
  const auto of_vector = [](const uint4& v) {
    return Word::larger(Word::larger(Word::as_maximum(v.x), Word::as_maximum(v.y)),
                        Word::larger(Word::as_maximum(v.z), Word::as_maximum(v.w)));
  };
  typename Word::Maximum maximum = of_vector(vectors[0]);
#pragma unroll
  for (int k = 1; k < Vectors; ++k) maximum = Word::larger(maximum, of_vector(vectors[k]));
  return Word::value(maximum);
}

}  // namespace vocabloss::Impl

#endif
