// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_CALL_HPP
#define VOCABLOSS_TEST_CALL_HPP

/// \file
/// A call of a plan as plain data: what goes in, how it is stored, what comes out. Tests over many losses, types and
/// paths are written with these, and the plans are compiled once (run_loss.cpp.in).

#include <vocabloss/loss/options.hpp>
#include <vocabloss/tuning/plan.hpp>
#include <vocabloss/types.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace test {

using vocabloss::DataType;
using vocabloss::LossOptions;
using vocabloss::Path;

enum class Sequence {
  forward,
  forward_backward,
  forward_then_backward,        ///< the plan keeps the statistics
  forward_then_own_statistics,  ///< the caller keeps them
  forward_backward_twice        ///< of the same plan; the second run's results are returned
};

struct Call {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> x;  ///< [rows, columns]; rounded to `logits` before the call and in `expected`
  std::vector<double> t;
  std::vector<std::int64_t> labels;  ///< empty: none, as for all that follow
  std::vector<std::uint8_t> mask;
  std::vector<double> row_weights;
  std::vector<double> upstream[2];
  std::vector<double> gradient_before;  ///< given: the gradient is accumulated into it
  double upstream_scalar[2] = {1, 1};
  double divisor = 1;
  std::int64_t ignore_index = -100;
  LossOptions options;

  DataType logits = DataType::fp32;
  DataType teacher = DataType::fp32;
  DataType gradient = DataType::fp32;
  std::int64_t padding = 0;         ///< elements between rows, in every stream
  std::int64_t offset = 0;          ///< elements before the first row, which spoils its alignment
  std::int64_t vector_stride = 1;   ///< of labels, mask, weights, upstream and losses
  bool broadcast_upstream = false;  ///< upstream[k] holds one value, handed over with stride 0
  bool narrow_labels = false;       ///< int32
  bool in_place = false;

  Path path = Path::team;
  int block_cap = 0;
  Sequence sequence = Sequence::forward_backward;

  /// All three streams stored alike.
  void store_as(DataType type) { logits = teacher = gradient = type; }
};

struct Outputs {
  std::vector<double> losses[2];
  std::vector<double> gradient;
  double sum[2] = {0, 0};
  std::int64_t valid_rows = 0;
  std::int64_t invalid_labels = 0;

  std::string refused;              ///< the reason, where the path refused
  bool surroundings_intact = true;  ///< nothing outside the outputs was written: padding, guards, inputs
  std::string launch;
};

struct LossEntry {
  const char* name;
  int streams;
  bool teacher_is_logits;
  bool needs_label;
  int outputs;
  Outputs (*run)(const Call&);
  Outputs (*expected)(const Call&);  ///< textbook values in double of the rounded inputs, modifiers by hand
};

/// Every shipped loss, in the order of loss_names.hpp.
const std::vector<LossEntry>& all_losses();
const LossEntry& loss_named(const std::string& name);

inline constexpr DataType all_types[] = {DataType::bf16, DataType::fp16, DataType::fp32, DataType::fp64};
/// Paths that a machine without a GPU has; a path that refuses is skipped by `check`.
inline constexpr Path tested_paths[] = {Path::reference, Path::naive, Path::team, Path::cluster, Path::split};

/// `value` rounded to the storage type.
double round_to(DataType type, double value);

/// A call over ordinary rows that fits the loss: logits with outliers, a teacher where it has one, labels where it
/// needs them.
Call ordinary_call(const LossEntry& loss, std::int64_t rows, std::int64_t columns, unsigned seed = 1);

}  // namespace test

#endif
