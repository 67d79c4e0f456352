// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_SHAPES_HPP
#define VOCABLOSS_TEST_SHAPES_HPP

/// \file
/// Adversarial shapes and values: lengths around every power of two that a pack, a vector, a team or a tile may have,
/// rows with outliers, padding that is NaN.

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace test {

/// Vocabulary widths for the tests that run everything.
inline const std::vector<std::int64_t> short_columns = {1,  2,  3,  5,  7,  8,  9,   15,  16, 17,
                                                        31, 32, 33, 63, 64, 65, 127, 129, 255};
inline const std::vector<std::int64_t> long_columns = {1000, 4095, 4096, 4097, 50257};

/// Logits as trained models have them: a bell, and now and then an outlier, so that the softmax is not flat.
inline std::vector<double> logits(std::int64_t count, unsigned seed, double spread = 2.0) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> bell(0.0, spread);
  std::uniform_int_distribution<int> die(0, 99);
  std::vector<double> values(count);
  for (double& value : values) value = bell(engine) + (die(engine) == 0 ? 6.0 * spread : 0.0);
  return values;
}

/// Teacher logits that agree with the student's to some extent.
inline std::vector<double> teacher_for(const std::vector<double>& student, unsigned seed) {
  std::vector<double> values = logits(static_cast<std::int64_t>(student.size()), seed, 1.0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.7 * student[i];
  return values;
}

/// Target probabilities, some of them 0, whose sum is near 1 but not 1.
inline std::vector<double> probabilities(std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::vector<double> values = logits(rows * columns, seed, 1.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) sum += std::exp(values[i * columns + j]);
    for (std::int64_t j = 0; j < columns; ++j) {
      double& value = values[i * columns + j];
      value = j % 5 == 3 ? 0.0 : std::exp(value) / sum;
    }
  }
  return values;
}

/// Labels that visit the first and the last column.
inline std::vector<std::int64_t> labels(std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::uniform_int_distribution<std::int64_t> any(0, columns - 1);
  std::vector<std::int64_t> values(rows);
  for (std::int64_t i = 0; i < rows; ++i) values[i] = i == 0 ? columns - 1 : i == 1 ? 0 : any(engine);
  return values;
}

}  // namespace test

#endif
