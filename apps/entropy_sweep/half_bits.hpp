// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_HALF_BITS_HPP
#define ENTROPY_SWEEP_HALF_BITS_HPP

/// \file
/// The two 16-bit formats as they lie in files, to and from double, without a library type: files are read and written
/// on hosts where Kokkos' half types are plain floats.

#include <bit>
#include <cmath>
#include <cstdint>

namespace entropy_sweep {

inline double bf16_to_double(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

inline double fp16_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 0x1f) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
inline std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Rounds to nearest, ties to even; overflow gives infinity; NaN stays NaN.
inline std::uint16_t fp16_from_float(float value) {
  const auto sign = static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) >> 16) & 0x8000u);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u);
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00u);
  // Steps of 2^-24 below the normal range, of 2^(exponent - 10) in it; nearbyint rounds ties to even. A carry out of
  // the fraction lands in the exponent field, which is what rounding up to the next power of two means.
  const int exponent = magnitude < std::ldexp(1.0, -14) ? -14 : std::ilogb(magnitude);
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  const int field = magnitude < std::ldexp(1.0, -14) ? steps : ((exponent + 15) << 10) + (steps - 1024);
  return static_cast<std::uint16_t>(sign | field);
}

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_HALF_BITS_HPP
