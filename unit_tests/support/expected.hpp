// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_EXPECTED_HPP
#define VOCABLOSS_TEST_EXPECTED_HPP

/// \file
/// What a Call must give: the textbook loss of each row in double, and mask, weights, factors and poison by hand,
/// sharing nothing with the library's own reading of a call.

#include <vocabloss/loss/reference.hpp>

#include <algorithm>
#include <cmath>

#include "support/call.hpp"
#include "support/compare.hpp"

namespace test {

template <class Loss>
vocabloss::reference::RowOutput textbook_row(const Loss& loss, const LossOptions& options,
                                             const vocabloss::reference::RowInput& row) {
  if constexpr (std::is_same_v<Loss, vocabloss::loss::Jsd<double>>) {
    if (options.jsd_beta == 0) return vocabloss::reference::evaluate(vocabloss::loss::ForwardKl<double>(options), row);
    if (options.jsd_beta == 1) return vocabloss::reference::evaluate(vocabloss::loss::ReverseKl<double>(options), row);
  }
  return vocabloss::reference::evaluate(loss, row);
}

template <class Tag>
Outputs expected_of(const Call& call) {
  using Loss = typename Tag::template Loss<double>;
  const Loss loss(call.options);
  const double factor = call.options.temperature_squared ? call.options.temperature * call.options.temperature : 1;
  const std::int64_t columns = call.columns;
  Outputs result;
  result.gradient = call.gradient_before;
  result.gradient.resize(call.rows * columns, 0.0);
  for (int k = 0; k < Loss::outputs; ++k) result.losses[k].resize(call.rows);

  for (std::int64_t i = 0; i < call.rows; ++i) {
    const bool ignored = !call.labels.empty() && call.labels[i] == call.ignore_index;
    if (ignored || (!call.mask.empty() && call.mask[i] == 0)) continue;  // loss 0, gradient as it was
    result.valid_rows += 1;
    const bool bad_label = !call.labels.empty() && (call.labels[i] < 0 || call.labels[i] >= columns);
    result.invalid_labels += bad_label;

    vocabloss::reference::RowInput row;
    for (std::int64_t j = i * columns; j < (i + 1) * columns; ++j) {
      row.x.push_back(round_to(call.logits, call.x[j]));
      if (Loss::streams == 2) row.t.push_back(round_to(call.teacher, call.t[j]));
    }
    row.label = call.labels.empty() || bad_label ? -1 : static_cast<int>(call.labels[i]);
    const double weight = call.row_weights.empty() ? 1 : call.row_weights[i];
    for (int k = 0; k < 2; ++k) {
      const auto& given = call.upstream[k];
      const double upstream = given.empty() ? call.upstream_scalar[k] : given[call.broadcast_upstream ? 0 : i];
      row.upstream[k] = upstream * weight * factor / call.divisor;
    }
    vocabloss::reference::RowOutput output{{not_a_number, not_a_number}, std::vector<double>(columns, not_a_number)};
    if (!bad_label) output = textbook_row(loss, call.options, row);
    for (int k = 0; k < Loss::outputs; ++k) {
      result.losses[k][i] = output.losses[k] * weight * factor;
      result.sum[k] += result.losses[k][i] / call.divisor;
    }
    for (std::int64_t j = 0; j < columns; ++j) result.gradient[i * columns + j] += output.gradient[j];
  }
  if (call.sequence == Sequence::forward) result.gradient.clear();
  return result;
}

}  // namespace test

#endif
