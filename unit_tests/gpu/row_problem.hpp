// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_ROW_PROBLEM_HPP
#define VOCABLOSS_ROW_PROBLEM_HPP

/// \file
/// \brief The rows that the checks of the CUDA paths meet: shapes, and what is hard about each row.

#include <vocabloss/types.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "device_matrix.cuh"

namespace row_check {

/// What a row holds. The peaked ones give one column that probability, in both streams nearly: where digits are lost.
enum class Kind {
  random,
  wide,
  peaked_9,
  peaked_99,
  peaked_999,
  peaked_9999,
  ties,
  equal,
  offset_300,
  offset_10000,
  minus_infinities,
  minus_infinities_in_logits,
  minus_infinities_in_teacher,
  label_at_minus_infinity,
  masked,
  ignored,
  label_outside,
  nan_in_logits,
  nan_in_teacher,
  plus_infinity,
  all_minus_infinity,
  count
};
inline const char* name_of(Kind kind) {
  static const char* const names[] = {"random",
                                      "wide",
                                      "peaked .9",
                                      "peaked .99",
                                      "peaked .999",
                                      "peaked .9999",
                                      "ties",
                                      "all equal",
                                      "offset 300",
                                      "offset 1e4",
                                      "minus infinities",
                                      "minus infinities in the logits",
                                      "minus infinities in the teacher",
                                      "label at minus infinity",
                                      "masked",
                                      "ignored",
                                      "label outside",
                                      "NaN in the logits",
                                      "NaN in the teacher",
                                      "plus infinity",
                                      "all minus infinity"};
  static_assert(sizeof names / sizeof *names == static_cast<int>(Kind::count));
  return names[static_cast<int>(kind)];
}

/// Rows as they are stored, and what a call says of them. Row i is of kind (i + first_kind) modulo the count.
struct RowProblem {
  DataType type = DataType::bf16, teacher_type = DataType::bf16;
  std::int64_t rows = 0, columns = 0;
  bool modifiers = false;  ///< a mask, row weights and an upstream gradient per row, or none of them
  int first_kind = 0;

  std::vector<float> x, teacher_logits, teacher_probabilities;
  std::vector<std::int64_t> labels;
  std::vector<std::uint8_t> mask;
  std::vector<float> upstream[2], weights;

  Kind kind(std::int64_t i) const { return Kind((i + first_kind) % static_cast<int>(Kind::count)); }

  void make();
  /// What a gradient is added to where it is accumulated: values near 1, of any type.
  std::vector<float> before() const {
    std::vector<float> values(rows * columns);
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = 0.125f * static_cast<float>(k * 2654435761u % 17) - 1.0f;
    return values;
  }

 private:
  void make_row(std::int64_t i);
  void make_stream(std::int64_t i, float* values, std::int64_t peak, bool is_teacher);
};

inline void RowProblem::make() {
  x.resize(rows * columns), teacher_logits.resize(rows * columns), teacher_probabilities.resize(rows * columns);
  labels.resize(rows), mask.resize(rows), weights.resize(rows), upstream[0].resize(rows), upstream[1].resize(rows);
  for_rows(rows, columns, [&](std::int64_t i) { make_row(i); });
}

/// Logits of one stream before they are rounded to their type.
inline void RowProblem::make_stream(std::int64_t i, float* values, std::int64_t peak, bool is_teacher) {
  const Kind what = kind(i);
  std::mt19937_64 random(2 * (columns * 1000003 + i) + is_teacher);
  std::normal_distribution<float> normal(0.0f, what == Kind::wide ? 6.0f : 1.0f);
  const float infinity = std::numeric_limits<float>::infinity();
  const float shift = what == Kind::offset_300 ? 300.0f : what == Kind::offset_10000 ? 10000.0f : 0.0f;
  const bool some_infinite = what == Kind::minus_infinities ||
                             (what == Kind::minus_infinities_in_logits && !is_teacher) ||
                             (what == Kind::minus_infinities_in_teacher && is_teacher);
  double sum_of_others = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    float value = normal(random) + shift;
    if (what == Kind::ties) value = std::floor(value);
    if (what == Kind::equal || (what == Kind::ties && j % 3 == 0)) value = 3;
    if (some_infinite && j % 5 == 1) value = -infinity;
    if (what == Kind::all_minus_infinity) value = -infinity;
    values[j] = value;
    if (j != peak) sum_of_others += std::exp(static_cast<double>(value));
  }
  if (what >= Kind::peaked_9 && what <= Kind::peaked_9999 && columns > 1) {
    const double rest =
        std::pow(10.0, -1 - (static_cast<int>(what) - static_cast<int>(Kind::peaked_9))) * (is_teacher ? 1.25 : 1.0);
    values[peak] = static_cast<float>(std::log((1 - rest) / rest * sum_of_others));
  }
  if (what == Kind::label_at_minus_infinity && columns > 1 && !is_teacher) values[peak] = -infinity;
  if (what == Kind::plus_infinity && !is_teacher) values[columns / 2] = infinity;
  const bool is_nan = what == Kind::masked || what == Kind::ignored ||
                      what == (is_teacher ? Kind::nan_in_teacher : Kind::nan_in_logits);
  if (is_nan) values[columns - 1] = std::nanf("");
}

inline void RowProblem::make_row(std::int64_t i) {
  const Kind what = kind(i);
  std::mt19937 random(static_cast<unsigned>(7 + i));
  const std::int64_t label = random() % columns;
  labels[i] = what == Kind::ignored ? -100 : what == Kind::label_outside ? (i % 2 ? columns : -1) : label;
  mask[i] = what == Kind::masked ? 0 : 1;
  for (auto& values : upstream) values[i] = modifiers ? 0.5f + 0.25f * static_cast<float>(random() % 7) : 1.0f;
  weights[i] = modifiers ? 1.0f + 0.5f * static_cast<float>(random() % 3) : 1.0f;

  // A confident row is right, or (every other one) wrong about its label.
  const bool is_wrong = what >= Kind::peaked_9 && what <= Kind::peaked_9999 && (columns + i) % 2 == 1;
  const std::int64_t peak = is_wrong ? (label + 1) % columns : label;
  float* x_row = x.data() + i * columns;
  float* t_row = teacher_logits.data() + i * columns;
  float* q_row = teacher_probabilities.data() + i * columns;
  make_stream(i, x_row, peak, false);
  make_stream(i, t_row, peak, true);
  // Probabilities: the softmax of such logits, of any sum.
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = 0; j < columns; ++j) largest = t_row[j] > largest ? t_row[j] : largest;
  double sum = 0;
  for (std::int64_t j = 0; j < columns; ++j) sum += std::exp(static_cast<double>(t_row[j]) - largest);
  for (std::int64_t j = 0; j < columns; ++j) {
    q_row[j] = stored(teacher_type, static_cast<float>(1.1 * std::exp(static_cast<double>(t_row[j]) - largest) / sum));
    t_row[j] = stored(teacher_type, t_row[j]);
    x_row[j] = stored(type, x_row[j]);
  }
}

/// The shapes that every path runs: all remainders of a vector, short, long, few and many rows. `is_short`: a handful,
/// for tools that slow a kernel down a hundredfold.
inline std::vector<RowProblem> row_problems(DataType type, DataType teacher_type, bool is_short) {
  std::vector<RowProblem> list;
  const auto add = [&](std::int64_t rows, std::int64_t columns, int first_kind = 0) {
    RowProblem problem;
    problem.type = type, problem.teacher_type = teacher_type, problem.rows = rows, problem.columns = columns;
    problem.modifiers = list.size() % 2 == 1, problem.first_kind = first_kind;
    list.push_back(std::move(problem));
  };
  const int all_kinds = static_cast<int>(Kind::count);
  if (is_short) {
    add(3, 7), add(all_kinds, 33), add(2, 4099, 4);
    return list;
  }
  for (std::int64_t columns = 1; columns <= 17; ++columns) add(all_kinds, columns);
  for (const std::int64_t columns : {31, 32, 33}) add(all_kinds, columns);
  for (std::int64_t columns = 4089; columns <= 4097; ++columns) add(all_kinds, columns);
  add(all_kinds, 8192), add(all_kinds, 50257), add(all_kinds, 50304);
  add(1, 50257, 5), add(2, 32768, 4), add(3, 65537, 0), add(1500, 1025);
  const std::int64_t half = type == DataType::fp32 ? 2 : 1;
  add(6, 131072 / half, 4), add(4, 262144 / half, 2);
  return list;
}

}  // namespace row_check

#endif
