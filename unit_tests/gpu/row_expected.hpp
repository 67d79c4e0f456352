// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_ROW_EXPECTED_HPP
#define VOCABLOSS_ROW_EXPECTED_HPP

/// \file
/// \brief The right answers of a problem's rows, found once and compared with every way to run the problem.

#include "row_losses.cuh"

namespace row_check {

inline ExpectedRow expected_row(const RowLoss& loss, const RowProblem& problem, std::int64_t i) {
  const double nan = std::nan("");
  const bool has_labels = loss.needs_label || problem.modifiers;
  const Kind kind = problem.kind(i);
  ExpectedRow row;
  const std::vector<double> zeros(problem.columns, 0.0);
  row.output = {{nan, nan}, std::vector<double>(problem.columns, nan), zeros};
  row.weights.assign(problem.columns, 0.0);
  row.loss_factor = problem.loss_factor * problem.weights[i];
  row.is_masked = (kind == Kind::masked && problem.modifiers) || (kind == Kind::ignored && has_labels);
  if (row.is_masked) row.output = {{0, 0}, zeros, zeros};
  if (row.is_masked || (has_labels && kind == Kind::label_outside)) return row;

  const auto values = [&](const std::vector<float>& all) {
    return std::vector<double>(all.begin() + i * problem.columns, all.begin() + (i + 1) * problem.columns);
  };
  reference::RowInput input;
  input.x = values(problem.x);
  if (loss.streams == 2) {
    input.t = values(loss.teacher_is_logits ? problem.teacher_logits : problem.teacher_probabilities);
  }
  input.label = static_cast<int>(problem.labels[i]);
  for (int k = 0; k < 2; ++k) {
    input.upstream[k] = static_cast<double>(problem.upstream[k][i]) * problem.weights[i] * problem.gradient_factor;
  }
  row.output = loss.expected(input);
  for (double& value : row.output.losses) value *= row.loss_factor;

  const double scale = loss.options.logit_scale / loss.options.temperature;
  const reference::Softmax student = reference::softmax(input.x, scale);
  row.lse = student.lse;
  if (student.exists) {
    const double upstream = std::fabs(input.upstream[0]) + (loss.outputs == 2 ? std::fabs(input.upstream[1]) : 0.0);
    row.unit = upstream * scale;
    for (std::int64_t j = 0; j < problem.columns; ++j) row.weights[j] = row.unit * student.p[j];
  }
  return row;
}

inline std::vector<ExpectedRow> expected_rows(const RowLoss& loss, const RowProblem& problem) {
  std::vector<ExpectedRow> rows(problem.rows);
  for_rows(problem.rows, problem.columns, [&](std::int64_t i) { rows[i] = expected_row(loss, problem, i); });
  return rows;
}

}  // namespace row_check

#endif
