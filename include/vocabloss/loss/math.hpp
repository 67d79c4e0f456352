// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_MATH_HPP
#define VOCABLOSS_LOSS_MATH_HPP

/// \file
/// \brief exp2 and log2 as the algebra needs them: one instruction on a GPU, a vectorisable polynomial on a CPU.
///
/// The algebra works in units of log 2, because hardware does; natural values appear in `finish` only.

#include <vocabloss/types.hpp>

#include <Kokkos_Macros.hpp>

#include <cmath>

namespace vocabloss::loss {

inline constexpr double log2_of_e = 1.4426950408889634074;
inline constexpr double log_of_2 = 0.69314718055994530942;

/// 2^a for a <= 126 (the algebra mostly raises 2 to differences from a maximum). 2^-inf = 0, results below the smallest
/// normal float may become 0, NaN passes. Error: 2 ulp on a GPU (ex2.approx), 1 ulp on a CPU.
KOKKOS_INLINE_FUNCTION float exp2_of(float a) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
#else
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits; the rest, in [-1/2, 1/2], goes through the minimax
  // polynomial of 2^f. No branch and no library call, so that a loop over lanes becomes vector code.
  constexpr float magic = 12582912.0f;
  const float shifted = a + magic;
  const float f = a - (shifted - magic);
  float p = 1.5453163e-4f;
  p = p * f + 1.3390863e-3f;
  p = p * f + 9.6180826e-3f;
  p = p * f + 5.5503571e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314719e-1f;
  p = p * f + 1.0f;
  const float power = Impl::float_of((Impl::bits_of(shifted) + (127u - 0x4b400000u)) << 23);
  return a < -126.0f ? 0.0f : p * power;
#endif
}

KOKKOS_INLINE_FUNCTION double exp2_of(double a) { return ::exp2(a); }

/// log2 of a normal number, to about 1 ulp of max(1, |result|).
KOKKOS_INLINE_FUNCTION float log2_of(float a) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
#else
  // a = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)]; log2(1 + f) = 2/ln 2 * atanh(f / (2 + f)).
  const std::uint32_t bits = Impl::bits_of(a);
  const std::uint32_t offset = bits - 0x3f3504f3u;
  const float exponent = static_cast<float>(static_cast<std::int32_t>(offset) >> 23);
  const float mantissa = Impl::float_of((offset & 0x007fffffu) + 0x3f3504f3u);
  const float f = mantissa - 1.0f;
  const float z = f / (2.0f + f);
  const float zz = z * z;
  float p = 0.4121985831f;  // 2 / (7 ln 2)
  p = p * zz + 0.5770780164f;
  p = p * zz + 0.9617966939f;
  p = p * zz + 2.8853900818f;
  const float result = p * z + exponent;
  return a == a ? result : a;
#endif
}

KOKKOS_INLINE_FUNCTION double log2_of(double a) { return ::log2(a); }

/// Once a row: the accurate library function. 0 gives -inf.
KOKKOS_INLINE_FUNCTION float log2_exactly(float a) { return ::log2f(a); }
KOKKOS_INLINE_FUNCTION double log2_exactly(double a) { return ::log2(a); }

KOKKOS_INLINE_FUNCTION float log1p_exactly(float a) { return ::log1pf(a); }
KOKKOS_INLINE_FUNCTION double log1p_exactly(double a) { return ::log1p(a); }

/// weight * factor, where a term of weight 0 is 0 even if the factor is infinite (DESIGN: "a term of weight 0 is 0").
template <class Real>
KOKKOS_INLINE_FUNCTION Real weighted(Real weight, Real factor) {
  return weight == Real(0) ? Real(0) : weight * factor;
}

/// a * b + c, rounded once on a GPU; on a CPU as the compiler sees fit.
KOKKOS_INLINE_FUNCTION float multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}
KOKKOS_INLINE_FUNCTION double multiply_add(double a, double b, double c) { return a * b + c; }

/// a * b + c, rounded once everywhere.
KOKKOS_INLINE_FUNCTION float fused_multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
KOKKOS_INLINE_FUNCTION double fused_multiply_add(double a, double b, double c) { return ::fma(a, b, c); }

/// a * b, rounded for itself: a compiler may take a plain product into a following addition, unrounded.
template <class Real>
KOKKOS_INLINE_FUNCTION Real rounded_product(Real a, Real b) {
  return fused_multiply_add(a, b, Real(0));
}

/// a / b to 2 ulp, where b is a softmax sum or the like; infinite where b is next to nothing. Rows wait for some of
/// these, and a GPU takes long to round one.
KOKKOS_INLINE_FUNCTION float quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a / b;
#endif
}
KOKKOS_INLINE_FUNCTION double quotient(double a, double b) { return a / b; }

template <class Real>
KOKKOS_INLINE_FUNCTION Real not_a_number() {
  return static_cast<Real>(__builtin_nanf(""));
}

/// Whether a sum of exponentials is one: it is 0 for a stream with no finite logit, NaN where the stream holds NaN or
/// plus infinity.
template <class Real>
KOKKOS_INLINE_FUNCTION bool is_softmax_sum(Real sum) {
  return sum > Real(0) && sum < Real(1e30);
}

}  // namespace vocabloss::loss

#endif
