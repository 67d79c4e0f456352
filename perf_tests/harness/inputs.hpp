// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef PERF_TESTS_HARNESS_INPUTS_HPP
#define PERF_TESTS_HARNESS_INPUTS_HPP

/// \file
/// \brief Synthetic streams, made where they are read. The same seed gives the same values.

#include <vocabloss/loss/math.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace perf {

template <class Exec, class T>
using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, typename Exec::memory_space>;

/// splitmix64: a good hash of a counter.
KOKKOS_INLINE_FUNCTION std::uint64_t hash_of(std::uint64_t counter) {
  std::uint64_t z = counter * 0x9e3779b97f4a7c15ull + 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// Mean 0, variance 1: the sum of four uniform numbers; one in 1024 is four times as large, so that no softmax is flat.
KOKKOS_INLINE_FUNCTION double logit_of(std::uint64_t counter) {
  const std::uint64_t bits = hash_of(counter);
  double sum = 0;
  for (int k = 0; k < 4; ++k) sum += static_cast<double>((bits >> (16 * k)) & 0xffffu) / 65536.0 - 0.5;
  const bool outlier = hash_of(~counter) % 1024 == 0;
  return sum * 1.7320508075688772 * (outlier ? 4.0 : 1.0);
}

/// body(row, column) everywhere.
template <class Exec, class Body>
void for_each_element(const Exec& exec, std::int64_t rows, std::int64_t columns, const Body& body) {
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(
      "VocabLoss::perf::fill", Policy(exec, 0, rows * columns),
      KOKKOS_LAMBDA(const std::int64_t k) { body(k / columns, k % columns); });
}

template <class Exec, class T>
void fill_logits(const Exec& exec, const Matrix<Exec, T>& matrix, std::uint64_t seed) {
  const std::int64_t columns = matrix.extent(1);
  for_each_element(
      exec, matrix.extent(0), columns, KOKKOS_LAMBDA(const std::int64_t i, const std::int64_t j) {
        const double value = logit_of((seed << 40) + i * columns + j);
        matrix(i, j) = vocabloss::narrow<T>(static_cast<vocabloss::Accumulate<T>>(value));
      });
}

/// Rows that sum to about 1.
template <class Exec, class T>
void fill_probabilities(const Exec& exec, const Matrix<Exec, T>& matrix, std::uint64_t seed) {
  const std::int64_t columns = matrix.extent(1);
  for_each_element(
      exec, matrix.extent(0), columns, KOKKOS_LAMBDA(const std::int64_t i, const std::int64_t j) {
        const double uniform = static_cast<double>(hash_of((seed << 40) + i * columns + j) >> 11) * 0x1p-53;
        matrix(i, j) = vocabloss::narrow<T>(static_cast<vocabloss::Accumulate<T>>(2.0 * uniform / columns));
      });
}

template <class Exec, class T>
void fill_with_nan(const Exec& exec, const Matrix<Exec, T>& matrix) {
  for_each_element(
      exec, matrix.extent(0), matrix.extent(1), KOKKOS_LAMBDA(const std::int64_t i, const std::int64_t j) {
        matrix(i, j) = vocabloss::narrow<T>(vocabloss::loss::not_a_number<vocabloss::Accumulate<T>>());
      });
}

/// How many elements are infinite or NaN.
template <class Exec, class T>
std::int64_t count_not_finite(const Exec& exec, const Matrix<Exec, T>& matrix) {
  const std::int64_t columns = matrix.extent(1);
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  std::int64_t count = 0;
  Kokkos::parallel_reduce(
      "VocabLoss::perf::count_not_finite", Policy(exec, 0, matrix.extent(0) * columns),
      KOKKOS_LAMBDA(const std::int64_t k, std::int64_t& sum) {
        const auto value = vocabloss::widen(matrix(k / columns, k % columns));
        sum += value - value == 0 ? 0 : 1;
      },
      count);
  return count;
}

}  // namespace perf

#endif
