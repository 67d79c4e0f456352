// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_SYNTHETIC_HPP
#define ENTROPY_SWEEP_SYNTHETIC_HPP

/// \file
/// Synthetic data by counting: a value depends on the seed, the stream, the row and the column of the whole vocabulary
/// and on nothing else, so that every type, path, execution space and number of ranks sees the same problem.

#include <Kokkos_Core.hpp>
#include <cstdint>

namespace entropy_sweep {

/// Independent sequences of one seed.
enum class Sequence : std::uint64_t { logits = 1, teacher = 2, labels = 3 };

/// The finaliser of the splitmix64 generator (Steele, Lea, Flood, OOPSLA 2014): every input bit moves every output bit.
KOKKOS_INLINE_FUNCTION std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/// A key for one row of a sequence; `mix(key + n)` are its numbers.
KOKKOS_INLINE_FUNCTION std::uint64_t row_key(std::uint64_t seed, Sequence sequence, std::int64_t row) {
  return mix(mix(mix(seed) + static_cast<std::uint64_t>(sequence)) + static_cast<std::uint64_t>(row));
}

struct NormalPair {
  float first;
  float second;
};

/// Columns 2 * pair and 2 * pair + 1 of a row: two standard normal numbers (Box and Muller) of at most 5.8.
KOKKOS_INLINE_FUNCTION NormalPair normal_pair(std::uint64_t key, std::int64_t pair) {
  constexpr float unit = 1.0f / 16777216.0f;  // 2^-24
  const std::uint64_t bits = mix(key + static_cast<std::uint64_t>(pair));
  const float above_zero = static_cast<float>((bits >> 40) + 1) * unit;
  const float angle = static_cast<float>(bits & 0xffffffu) * (6.28318530718f * unit);
  const float radius = Kokkos::sqrt(-2.0f * Kokkos::log(above_zero));
  return {radius * Kokkos::cos(angle), radius * Kokkos::sin(angle)};
}

/// A label in [0, vocab), all equally likely.
KOKKOS_INLINE_FUNCTION std::int64_t random_label(std::uint64_t seed, std::int64_t row, std::int64_t vocab) {
  return static_cast<std::int64_t>(row_key(seed, Sequence::labels, row) % static_cast<std::uint64_t>(vocab));
}

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_SYNTHETIC_HPP
