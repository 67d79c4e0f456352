// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Real logits of a language model against values and gradients that another implementation computed in float64: the
// shipped 16 rows always, the 160 they were drawn from where VOCABLOSS_REAL_LM_DIR says where those are.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "safetensors.hpp"
#include "support/check.hpp"
#include "support/compare.hpp"

namespace {

using namespace test;
using entropy_sweep::SafetensorsFile;

constexpr std::int64_t columns = 32768;
constexpr std::int64_t rows_at_once = 16;

struct Quantity {
  const char* loss;
  const char* value;     ///< tensor of the values
  const char* gradient;  ///< grad_<this>_row<k>; null: none stored
  double temperature;
};
constexpr Quantity quantities[] = {
    {"cross_entropy", "cross_entropy_label", "cross_entropy_label", 1},
    {"log_prob", "logprob_label", nullptr, 1},
    {"soft_cross_entropy", "cross_entropy_soft", "cross_entropy_soft", 1},
    {"soft_cross_entropy", "cross_entropy_soft_t2", nullptr, 2},
    {"forward_kl", "forward_kl", "forward_kl", 1},
    {"forward_kl", "forward_kl_t2", nullptr, 2},
    {"reverse_kl", "reverse_kl", "reverse_kl", 1},
    {"reverse_kl", "reverse_kl_t2", nullptr, 2},
    {"jsd", "jsd_0.5", "jsd_0.5", 1},
    {"jsd", "jsd_0.5_t2", nullptr, 2},
    {"z_loss", "z", "z", 1},
    {"entropy", "entropy_student", "entropy", 1},
};

/// The three files of a set of rows, and the rows' numbers in the set of 160.
struct RealRows {
  SafetensorsFile student, teacher, expected;
  std::vector<double> x, t;
  std::vector<std::int64_t> labels, numbers;

  RealRows(const std::string& directory, const std::string& suffix)
      : student(directory + "/student-" + suffix),
        teacher(directory + "/teacher-" + suffix),
        expected(directory + "/expected-" + suffix),
        x(to_doubles(student.tensor("student"))),
        t(to_doubles(teacher.tensor("teacher"))),
        labels(to_integers(student.tensor("labels"))),
        numbers(labels.size()) {
    std::iota(numbers.begin(), numbers.end(), 0);
    if (expected.contains("source_rows")) numbers = to_integers(expected.tensor("source_rows"));
  }

  std::int64_t rows() const { return static_cast<std::int64_t>(labels.size()); }

  Call call(std::int64_t first, double temperature) const {
    Call call;
    call.rows = std::min(rows_at_once, rows() - first);
    call.columns = columns;
    call.x.assign(x.begin() + first * columns, x.begin() + (first + call.rows) * columns);
    call.t.assign(t.begin() + first * columns, t.begin() + (first + call.rows) * columns);
    call.labels.assign(labels.begin() + first, labels.begin() + first + call.rows);
    call.options.temperature = temperature;
    return call;
  }
};

std::unique_ptr<RealRows> rows_from(const char* variable, const std::string& suffix) {
  const char* directory = std::getenv(variable);
  if (directory == nullptr || *directory == '\0') return nullptr;
  return std::make_unique<RealRows>(directory, suffix);
}

struct Accuracy {
  double value;              ///< times max(1, |value|)
  double gradient;           ///< times the row's 2-norm
  double gradient_absolute;  ///< and this: p_y - 1 leaves float's last digits of 1
};

void check_rows(const RealRows& rows, DataType type, Path path, const Accuracy& accuracy) {
  for (const Quantity& quantity : quantities) {
    const std::vector<double> values = to_doubles(rows.expected.tensor(quantity.value));
    for (std::int64_t first = 0; first < rows.rows(); first += rows_at_once) {
      Call call = rows.call(first, quantity.temperature);
      call.store_as(type);
      call.path = path;
      const Outputs outputs = loss_named(quantity.loss).run(call);
      if (!outputs.refused.empty()) GTEST_SKIP() << outputs.refused;
      for (std::int64_t i = 0; i < call.rows; ++i) {
        SCOPED_TRACE(std::string(quantity.value) + ", row " + std::to_string(rows.numbers[first + i]));
        const double expected = values[first + i];
        EXPECT_TRUE(near(outputs.losses[0][i], expected, accuracy.value * std::fmax(1, std::fabs(expected))));
        if (quantity.gradient == nullptr) continue;
        const std::string name =
            "grad_" + std::string(quantity.gradient) + "_row" + std::to_string(rows.numbers[first + i]);
        if (!rows.expected.contains(name)) continue;
        const std::vector<double> gradient = to_doubles(rows.expected.tensor(name));
        EXPECT_TRUE(row_near(outputs.gradient.data() + i * columns, gradient.data(), columns, accuracy.gradient,
                             accuracy.gradient_absolute / accuracy.gradient));
      }
    }
  }
}

struct Setting {
  DataType type;
  Path path;
  Accuracy accuracy;
};
constexpr Setting settings[] = {
    {DataType::fp64, Path::reference, {1e-10, 1e-6, 1e-9}},  // gradients are stored in float32
    {DataType::fp64, Path::team, {1e-10, 1e-6, 1e-9}},      {DataType::bf16, Path::team, {1e-5, 4e-3, 0}},
    {DataType::fp32, Path::team, {1e-5, 1e-5, 4e-7}},       {DataType::bf16, Path::naive, {1e-5, 4e-3, 0}},
    {DataType::fp32, Path::naive, {1e-5, 1e-5, 4e-7}},      {DataType::bf16, Path::cluster, {1e-5, 4e-3, 0}},
    {DataType::bf16, Path::split, {1e-5, 4e-3, 0}},
};

class RealLogits : public ::testing::TestWithParam<Setting> {};

TEST_P(RealLogits, ShippedSample) {
  const auto rows = rows_from("VOCABLOSS_SAMPLE_DIR", "32k-16.safetensors");
  ASSERT_NE(rows, nullptr) << "VOCABLOSS_SAMPLE_DIR is not set: run this test through ctest";
  ASSERT_EQ(rows->rows(), 16);
  check_rows(*rows, GetParam().type, GetParam().path, GetParam().accuracy);
}

TEST_P(RealLogits, AllRows) {
  const auto rows = rows_from("VOCABLOSS_REAL_LM_DIR", "32k.safetensors");
  if (rows == nullptr) GTEST_SKIP() << "VOCABLOSS_REAL_LM_DIR is not set";
  ASSERT_EQ(rows->rows(), 160);
  check_rows(*rows, GetParam().type, GetParam().path, GetParam().accuracy);
}

INSTANTIATE_TEST_SUITE_P(Paths, RealLogits, ::testing::ValuesIn(settings), [](const auto& info) {
  return std::string(name_of(info.param.path)) + "_" + std::string(name_of(info.param.type));
});

}  // namespace
