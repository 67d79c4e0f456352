// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#include "support/check.hpp"

#include <algorithm>
#include <cmath>

#include "support/compare.hpp"
#include "support/tolerance.hpp"

namespace test {

namespace {

double largest(const double* values, std::int64_t count) {
  double most = 0;
  for (std::int64_t j = 0; j < count; ++j) {
    if (std::isfinite(values[j])) most = std::fmax(most, std::fabs(values[j]));
  }
  return most;
}

/// The size of a row's upstream gradient: what a probability's rounding error is multiplied with.
double upstream_of_row(const LossEntry& loss, const Call& call, std::int64_t i) {
  double total = 0;
  for (int k = 0; k < loss.outputs; ++k) {
    const auto& given = call.upstream[k];
    total += std::fabs(given.empty() ? call.upstream_scalar[k] : given[call.broadcast_upstream ? 0 : i]);
  }
  const double weight = call.row_weights.empty() ? 1 : std::fabs(call.row_weights[i]);
  const double squared = call.options.temperature_squared ? std::pow(call.options.temperature, 2) : 1;
  const double size = total * weight * squared * call.options.logit_scale / call.options.temperature / call.divisor;
  return std::isfinite(size) ? size : 0;  // of masked rows, whose upstream may be anything
}

/// Adds a row's softmax to `weights`; a row that has none adds nothing.
void add_softmax(std::vector<double>& weights, const double* logits, double scale) {
  double maximum = -infinity;
  for (std::size_t j = 0; j < weights.size(); ++j) maximum = std::fmax(maximum, logits[j]);
  double sum = 0;
  for (std::size_t j = 0; j < weights.size(); ++j) sum += std::exp((logits[j] - maximum) * scale);
  if (!std::isfinite(sum)) return;
  for (std::size_t j = 0; j < weights.size(); ++j) weights[j] += std::exp((logits[j] - maximum) * scale) / sum;
}

/// How much of each column's gradient may be the last digits of what was subtracted: p - q and p_y - 1 leave those of
/// the probabilities, p (d - loss) those of the logarithms.
std::vector<double> cancelled_digits(const LossEntry& loss, const Call& call, std::int64_t i) {
  std::vector<double> weights(call.columns, 0.0);
  const double* x = call.x.data() + i * call.columns;
  const double* t = call.t.empty() ? nullptr : call.t.data() + i * call.columns;
  double size = largest(x, call.columns) * call.options.logit_scale / call.options.temperature;
  add_softmax(weights, x, call.options.logit_scale / call.options.temperature);
  if (loss.streams == 2 && loss.teacher_is_logits) {
    size += largest(t, call.columns) * call.options.teacher_scale / call.options.temperature;
    add_softmax(weights, t, call.options.teacher_scale / call.options.temperature);
  } else if (loss.streams == 2) {
    for (std::int64_t j = 0; j < call.columns; ++j) weights[j] += std::isfinite(t[j]) ? std::fabs(t[j]) : 0;
  }
  if (!call.labels.empty() && call.labels[i] >= 0 && call.labels[i] < call.columns) weights[call.labels[i]] += 1;
  size += std::log(static_cast<double>(call.columns));
  // Path naive sums a row one by one, as the code that it stands for does.
  const double serial = call.path == Path::naive ? 0.25 * static_cast<double>(call.columns) : 0;
  const double unit = tolerance_of(call.logits).epsilon * (16 + 4 * size + serial) * upstream_of_row(loss, call, i);
  for (double& weight : weights) weight *= unit;
  return weights;
}

void expect_losses_agree(const Call& call, const std::vector<double>& actual, const std::vector<double>& expected) {
  const Tolerance tolerance = tolerance_of(call.logits);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(near(actual[i], expected[i], tolerance.loss * std::fmax(1, std::fabs(expected[i]))))
        << "loss of row " << i;
  }
}

/// What `got` is off by beyond one rounding to the stored type.
double beyond_rounding(DataType type, double got, double exact) {
  if (within(got, round_to(type, exact), 0)) return 0;
  return std::fmax(0, std::fabs(got - exact) - half_step(type, std::fmax(std::fabs(got), std::fabs(exact))));
}

/// Per element and per row: rounded once from a value that is right to the precision of the sums.
void expect_gradient_agrees(const LossEntry& loss, const Call& call, const std::vector<double>& actual,
                            const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  if (expected.empty()) return;
  const Tolerance tolerance = tolerance_of(call.logits);
  for (std::int64_t i = 0; i < call.rows; ++i) {
    const double* exact = expected.data() + i * call.columns;
    const double* got = actual.data() + i * call.columns;
    const std::vector<double> cancelled = cancelled_digits(loss, call, i);
    const double smallest = tolerance.smallest * upstream_of_row(loss, call, i);
    double allowed_squares = 0;
    double squares = 0;
    double norm = 0;
    for (std::int64_t j = 0; j < call.columns; ++j) {
      if (!std::isfinite(exact[j]) || !std::isfinite(got[j])) {
        ASSERT_TRUE(within(got[j], round_to(call.gradient, exact[j]), 0))
            << "gradient of row " << i << ", column " << j << ": got " << got[j] << ", expected " << exact[j];
        continue;
      }
      const double beyond = beyond_rounding(call.gradient, got[j], exact[j]);
      const double one = cancelled[j] + smallest;
      ASSERT_TRUE(beyond <= one + tolerance.gradient * std::fabs(exact[j]))
          << "gradient of row " << i << ", column " << j << ": got " << got[j] << ", expected " << exact[j]
          << " rounded once; off by " << beyond << " beyond that";
      squares += beyond * beyond;
      norm += exact[j] * exact[j];
      allowed_squares += one * one;
    }
    ASSERT_TRUE(std::sqrt(squares) <= tolerance.gradient_row * std::sqrt(norm) + std::sqrt(allowed_squares))
        << "gradient of row " << i << " is off by " << std::sqrt(squares) << " in the 2-norm, of " << std::sqrt(norm);
  }
}

}  // namespace

std::string describe(const LossEntry& loss, const Call& call) {
  std::string text = std::string(loss.name) + " " + std::string(name_of(call.path));
  if (call.block_cap) text += " block_cap=" + std::to_string(call.block_cap);
  text +=
      " " + std::string(name_of(call.logits)) + ", " + std::to_string(call.rows) + " x " + std::to_string(call.columns);
  if (loss.streams == 2) text += ", teacher " + std::string(name_of(call.teacher));
  text += ", gradient " + std::string(name_of(call.gradient));
  if (call.padding || call.offset) {
    text += ", padding " + std::to_string(call.padding) + ", offset " + std::to_string(call.offset);
  }
  if (call.in_place) text += ", in place";
  return text + ", sequence " + std::to_string(static_cast<int>(call.sequence));
}

void expect_agree(const LossEntry& loss, const Call& call, const Outputs& actual, const Outputs& expected) {
  const Tolerance tolerance = tolerance_of(call.logits);
  for (int k = 0; k < loss.outputs; ++k) {
    expect_losses_agree(call, actual.losses[k], expected.losses[k]);
    double magnitude = 1;
    for (const double value : expected.losses[k]) {
      if (std::isfinite(value)) magnitude += std::fabs(value / call.divisor);
    }
    EXPECT_TRUE(near(actual.sum[k], expected.sum[k], tolerance.loss * magnitude)) << "sum of output " << k;
  }
  EXPECT_EQ(actual.valid_rows, expected.valid_rows);
  EXPECT_EQ(actual.invalid_labels, expected.invalid_labels);
  expect_gradient_agrees(loss, call, actual.gradient, expected.gradient);
  EXPECT_TRUE(actual.surroundings_intact) << "something beside the outputs was written";
}

Outputs check(const LossEntry& loss, const Call& call) {
  SCOPED_TRACE(describe(loss, call));
  const Outputs actual = loss.run(call);
  if (!actual.refused.empty()) {
    EXPECT_TRUE(call.path == Path::cluster || call.path == Path::split || call.path == Path::naive ||
                call.path == Path::reference)
        << actual.refused;
    return actual;
  }
  expect_agree(loss, call, actual, loss.expected(call));
  return actual;
}

void expect_same_bits(const Outputs& a, const Outputs& b) {
  for (int k = 0; k < 2; ++k) {
    EXPECT_TRUE(same_values(a.losses[k], b.losses[k]));
    EXPECT_TRUE(within(a.sum[k], b.sum[k], 0)) << a.sum[k] << " and " << b.sum[k];
  }
  EXPECT_TRUE(same_values(a.gradient, b.gradient));
  EXPECT_EQ(a.valid_rows, b.valid_rows);
  EXPECT_EQ(a.invalid_labels, b.invalid_labels);
}

}  // namespace test
