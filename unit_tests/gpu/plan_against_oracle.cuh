// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_PLAN_AGAINST_ORACLE_CUH
#define VOCABLOSS_PLAN_AGAINST_ORACLE_CUH

/// \file
/// \brief Chosen rows of a device matrix against the oracle that the path checks use.

#include "plan_rows.cuh"
#include "row_compare.hpp"

namespace plan_contracts {

inline std::vector<bfloat16> row_of(const Matrix& view, std::int64_t i) {
  std::vector<bfloat16> row(view.extent(1));
  CUDA_OK(cudaMemcpy(row.data(), view.data() + i * static_cast<std::int64_t>(view.extent(1)), row.size() * 2,
                     cudaMemcpyDeviceToHost));
  return row;
}

/// Rows of streams, kept before a call that may overwrite them.
struct KeptRows {
  std::vector<std::int64_t> rows;
  row_check::RowProblem problem;

  KeptRows(std::vector<std::int64_t> which, const Matrix& x, const Matrix& t, int label) : rows(std::move(which)) {
    problem.rows = static_cast<std::int64_t>(rows.size()), problem.columns = static_cast<std::int64_t>(x.extent(1));
    problem.loss_factor = problem.gradient_factor = 1.0f;
    for (const std::int64_t i : rows) {
      for (const bfloat16 value : row_of(x, i)) problem.x.push_back(vocabloss::widen(value));
      if (t.data()) {
        for (const bfloat16 value : row_of(t, i)) problem.teacher_logits.push_back(vocabloss::widen(value));
      }
      problem.labels.push_back(label);
      problem.weights.push_back(1.0f);
      for (auto& upstream : problem.upstream) upstream.push_back(1.0f);
    }
  }

  void expect(const row_check::RowLoss& loss, const Matrix& g, const float* losses) const {
    const std::vector<row_check::ExpectedRow> expected = row_check::expected_rows(loss, problem);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      float loss_on_host = 0;
      CUDA_OK(cudaMemcpy(&loss_on_host, losses + rows[k], sizeof(float), cudaMemcpyDeviceToHost));
      const std::vector<bfloat16> gradient = row_of(g, rows[k]);
      const double value = loss_on_host;
      row_check::Worst worst;
      EXPECT_EQ(row_check::compare_losses(loss, expected[k], &value, worst), "") << loss.name << ", row " << rows[k];
      const auto ours = [&](std::int64_t j) { return static_cast<double>(vocabloss::widen(gradient[j])); };
      const std::string wrong = row_check::compare_gradient(loss, problem, static_cast<std::int64_t>(k), expected[k],
                                                            vocabloss::DataType::bf16, false, ours, ours, worst);
      EXPECT_EQ(wrong, "") << loss.name << ", row " << rows[k];
    }
  }
};

}  // namespace plan_contracts

#endif
