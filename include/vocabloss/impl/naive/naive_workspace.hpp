// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_NAIVE_NAIVE_WORKSPACE_HPP
#define VOCABLOSS_IMPL_NAIVE_NAIVE_WORKSPACE_HPP

/// \file
/// \brief What path `naive` materialises, and where: 3 matrices for losses of one stream, 5 for two, 6 for JSD.
///
/// Matrices have rows of `padded` Reals: the columns rounded up to whole blocks, the rest zero. Row sums go in two
/// steps, columns to blocks and blocks to rows, because a running float sum of 100000 terms is good to 1e-5 only.
/// Example: 4096 x 131072 in bf16, reverse KL: 5 * 4096 * 131072 * 4 B = 10.7 GB.

#include <vocabloss/impl/naive/naive_formula.hpp>

#include <cstddef>
#include <cstdint>

namespace vocabloss::Impl {

template <class Real>
struct NaiveWorkspace {
  static constexpr int most_block_columns = 256;
  static constexpr std::size_t alignment = 256;

  int block_columns = 1;
  int blocks = 1;  ///< a row
  std::int64_t padded = 1;

  Real* log_p = nullptr;  ///< first the converted logits, then shifted and scaled in place
  Real* p = nullptr;
  Real* product = nullptr;  ///< the terms of the loss, then the gradient before rounding
  Real* log_q = nullptr;
  Real* q = nullptr;  ///< or the given probabilities
  Real* log_m = nullptr;

  Real* block_sums = nullptr;  ///< [rows, blocks]
  Real* ones = nullptr;        ///< [larger of block_columns and blocks]
  // One value a row:
  Real* max_x = nullptr;
  Real* sum_x = nullptr;
  Real* max_t = nullptr;
  Real* sum_t = nullptr;
  Real* row_sum = nullptr;    ///< of `product`
  Real* row_sum_2 = nullptr;  ///< of a second product: JSD's teacher part; or log p of the label
  Real* factor = nullptr;     ///< of the row's gradient
  Real* factor_2 = nullptr;   ///< of the label's part of the gradient

  static std::size_t bytes(NaiveLoss loss, std::int64_t rows, int columns) {
    return NaiveWorkspace().lay_out(nullptr, loss, rows, columns);
  }

  static NaiveWorkspace at(void* memory, NaiveLoss loss, std::int64_t rows, int columns) {
    NaiveWorkspace workspace;
    workspace.lay_out(static_cast<char*>(memory), loss, rows, columns);
    return workspace;
  }

 private:
  std::size_t lay_out(char* memory, NaiveLoss loss, std::int64_t rows, int columns) {
    const NaiveFormula<Real> formula{loss};
    block_columns = columns < 1 ? 1 : columns < most_block_columns ? columns : most_block_columns;
    blocks = columns < 1 ? 1 : (columns + block_columns - 1) / block_columns;
    padded = static_cast<std::int64_t>(blocks) * block_columns;
    std::size_t used = 0;
    const auto take = [&](Real*& slice, std::int64_t count) {
      slice = memory ? reinterpret_cast<Real*>(memory + used) : nullptr;
      used += (static_cast<std::size_t>(count) * sizeof(Real) + alignment - 1) / alignment * alignment;
    };
    for (Real** matrix : {&log_p, &p, &product}) take(*matrix, rows * padded);
    if (formula.has_teacher_logits()) take(log_q, rows * padded);
    if (formula.has_teacher()) take(q, rows * padded);
    if (loss == NaiveLoss::jsd) take(log_m, rows * padded);
    take(block_sums, rows * blocks);
    take(ones, block_columns > blocks ? block_columns : blocks);
    for (Real** vector : {&max_x, &sum_x, &max_t, &sum_t, &row_sum, &row_sum_2, &factor, &factor_2})
      take(*vector, rows);
    return used;
  }
};

}  // namespace vocabloss::Impl

#endif
