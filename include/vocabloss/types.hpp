// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_TYPES_HPP
#define VOCABLOSS_TYPES_HPP

/// \file
/// \brief The value types of the library: how logits are stored, and in what they are accumulated.
///
/// | stored as  | bytes | accumulated in | losses and sums |
/// |------------|-------|----------------|-----------------|
/// | `bfloat16` | 2     | float          | float           |
/// | `float16`  | 2     | float          | float           |
/// | `float`    | 4     | float          | float           |
/// | `double`   | 8     | double         | double          |
///
/// The two 16-bit types are ours because Kokkos' half types are plain `float` in a build without a device backend.
/// They hold the same bits as CUDA's `__nv_bfloat16` and `__half` and as Kokkos' device half types, so a pointer to any
/// of those may be reinterpreted. Conversions round to nearest even and keep infinities and NaN.
/// Read next: loss/pack.hpp (registers full of columns), batch.hpp (how a caller hands over Views).

#include <Kokkos_Macros.hpp>

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace vocabloss {

/// Storage of a brain float: 8 bits of exponent, 8 of significand (7 stored).
struct bfloat16 {
  std::uint16_t bits;
};

/// Storage of an IEEE 754 binary16 number.
struct float16 {
  std::uint16_t bits;
};

/// Run-time name of a storage type; the values are stable.
enum class DataType : std::uint8_t { bf16 = 0, fp16 = 1, fp32 = 2, fp64 = 3 };

namespace Impl {

KOKKOS_INLINE_FUNCTION std::uint32_t bits_of(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

KOKKOS_INLINE_FUNCTION float float_of(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

}  // namespace Impl

/// Widening is exact; every finite and non-finite value survives.
KOKKOS_INLINE_FUNCTION float widen(bfloat16 value) {
  return Impl::float_of(static_cast<std::uint32_t>(value.bits) << 16);
}

KOKKOS_INLINE_FUNCTION float widen(float16 value) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(value.bits));
#else
  // Multiplying by 2^112 moves the exponent and normalises subnormals in one exact step; no branch, so that a loop over
  // lanes vectorises. An exponent of all ones is put back afterwards.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7fffu) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const float scaled = Impl::float_of(magnitude) * Impl::float_of(0x77800000u);
  const std::uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return Impl::float_of(Impl::bits_of(scaled) | special | sign);
#endif
}

KOKKOS_INLINE_FUNCTION float widen(float value) { return value; }
KOKKOS_INLINE_FUNCTION double widen(double value) { return value; }

namespace Impl {

template <class T>
struct Narrow;

template <>
struct Narrow<bfloat16> {
  KOKKOS_INLINE_FUNCTION static bfloat16 from(float value) {
#if defined(__CUDA_ARCH__)
    return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t quiet_nan = (bits >> 16) | 0x40u;
    return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded)};
#endif
  }
};

template <>
struct Narrow<float16> {
  KOKKOS_INLINE_FUNCTION static float16 from(float value) {
#if defined(__CUDA_ARCH__)
    return {__half_as_ushort(__float2half_rn(value))};
#else
    // Three ranges, selected without branches. Subnormal halves: adding 0.5 makes the float unit round at 2^-24.
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // 65520 and above round to infinity
    half = magnitude > 0x7f800000u ? 0x7e00u : half;
    return {static_cast<std::uint16_t>(half | sign)};
#endif
  }
};

template <>
struct Narrow<float> {
  KOKKOS_INLINE_FUNCTION static float from(float value) { return value; }
  KOKKOS_INLINE_FUNCTION static float from(double value) { return static_cast<float>(value); }
};

template <>
struct Narrow<double> {
  KOKKOS_INLINE_FUNCTION static double from(double value) { return value; }
};

}  // namespace Impl

/// Rounds once, to nearest even.
template <class T, class Real>
KOKKOS_INLINE_FUNCTION T narrow(Real value) {
  return Impl::Narrow<T>::from(value);
}

/// What the library knows of a storage type: `type`, the run-time name; `Real`, what it is accumulated in.
template <class T>
struct Precision;

template <>
struct Precision<bfloat16> {
  using Real = float;
  static constexpr DataType type = DataType::bf16;
};
template <>
struct Precision<float16> {
  using Real = float;
  static constexpr DataType type = DataType::fp16;
};
template <>
struct Precision<float> {
  using Real = float;
  static constexpr DataType type = DataType::fp32;
};
template <>
struct Precision<double> {
  using Real = double;
  static constexpr DataType type = DataType::fp64;
};

template <class T>
using Accumulate = typename Precision<T>::Real;

/// Bytes of one stored value.
constexpr int size_of(DataType type) { return type == DataType::fp64 ? 8 : type == DataType::fp32 ? 4 : 2; }

/// "bf16", "fp16", "fp32" or "fp64".
constexpr const char* name_of(DataType type) {
  return type == DataType::bf16 ? "bf16" : type == DataType::fp16 ? "fp16" : type == DataType::fp32 ? "fp32" : "fp64";
}

}  // namespace vocabloss

#endif
