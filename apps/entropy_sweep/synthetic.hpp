// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_SYNTHETIC_HPP
#define ENTROPY_SWEEP_SYNTHETIC_HPP

/// \file
/// Synthetic data by counting: a value depends on the seed, the stream, the row and the column of the whole vocabulary
/// (`peaked`: on the vocabulary's width too) and on nothing else, so that every type, path, execution space and number
/// of ranks sees the same problem.

#include <Kokkos_Core.hpp>
#include <cstdint>

namespace entropy_sweep {

/// Independent sequences of one seed.
enum class Sequence : std::uint64_t { logits = 1, teacher = 2, labels = 3, peaks = 4 };

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

// ---- peaked: rows as a language model's ----

/// Columns of a row that stand far above the rest.
inline constexpr int peaks_of_a_row = 4;

/// One row in eight has none. Where two columns are the same one, the first counts.
struct Peaks {
  int count = 0;
  std::int64_t column[peaks_of_a_row] = {};
  float logit[peaks_of_a_row] = {};  ///< the first is the largest, but for a teacher of another mind
};

/// In [0, 1).
KOKKOS_INLINE_FUNCTION float unit_number(std::uint64_t bits) {
  return static_cast<float>(bits >> 40) * (1.0f / 16777216.0f);
}

/// Peaks over a background of standard normal logits, whose exponentials sum to about vocab * e^(1/2). The first takes
/// a probability p from .3 to .9999, 1 - p spread evenly in its logarithm; the others take half of what is left. The
/// teacher's peaks are the student's, each with an error of its own.
KOKKOS_INLINE_FUNCTION Peaks peaks_of(std::uint64_t seed, Sequence sequence, std::int64_t row, std::int64_t vocab) {
  const std::uint64_t key = row_key(seed, Sequence::peaks, row);
  Peaks peaks;
  for (int k = 0; k < peaks_of_a_row; ++k) {
    peaks.column[k] =
        static_cast<std::int64_t>(mix(key + static_cast<std::uint64_t>(k)) % static_cast<std::uint64_t>(vocab));
  }
  const std::uint64_t character = mix(key + peaks_of_a_row);
  if (character % 8 == 0) return peaks;
  peaks.count = peaks_of_a_row;
  constexpr float log_most = -0.356675f;  // log .7
  constexpr float log_least = -9.21034f;  // log .0001
  const float rest = Kokkos::exp(log_most + (log_least - log_most) * unit_number(character));
  const float log_sum = Kokkos::log(2.0f * static_cast<float>(vocab) / rest) + 0.5f;
  peaks.logit[0] = log_sum + Kokkos::log(1.0f - rest);
  const float shares[] = {0.25f, 0.125f, 0.125f};
  for (int k = 1; k < peaks_of_a_row; ++k) peaks.logit[k] = log_sum + Kokkos::log(rest * shares[k - 1]);
  if (sequence == Sequence::teacher) {
    for (int k = 0; k < peaks_of_a_row; k += 2) {
      const NormalPair error = normal_pair(mix(key + peaks_of_a_row + 1), k / 2);
      peaks.logit[k] += 0.5f * error.first;
      peaks.logit[k + 1] += 0.5f * error.second;
    }
  }
  return peaks;
}

/// Columns 2 * pair and 2 * pair + 1 of what lies below the peaks; the teacher's correlates with the student's by .8.
KOKKOS_INLINE_FUNCTION NormalPair background_pair(std::uint64_t seed, Sequence sequence, std::int64_t row,
                                                  std::int64_t pair) {
  const NormalPair student = normal_pair(row_key(seed, Sequence::logits, row), pair);
  if (sequence != Sequence::teacher) return student;
  const NormalPair own = normal_pair(row_key(seed, sequence, row), pair);
  return {0.8f * student.first + 0.6f * own.first, 0.8f * student.second + 0.6f * own.second};
}

/// A label in [0, vocab), all equally likely.
KOKKOS_INLINE_FUNCTION std::int64_t random_label(std::uint64_t seed, std::int64_t row, std::int64_t vocab) {
  return static_cast<std::int64_t>(row_key(seed, Sequence::labels, row) % static_cast<std::uint64_t>(vocab));
}

/// The first peak's column in 13 rows of 16, the second's in 2, else any column.
KOKKOS_INLINE_FUNCTION std::int64_t peaked_label(std::uint64_t seed, std::int64_t row, std::int64_t vocab) {
  const std::uint64_t which = mix(row_key(seed, Sequence::labels, row)) % 16;
  if (which == 15) return random_label(seed, row, vocab);
  return peaks_of(seed, Sequence::logits, row, vocab).column[which < 13 ? 0 : 1];
}

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_SYNTHETIC_HPP
