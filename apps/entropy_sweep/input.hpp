// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_INPUT_HPP
#define ENTROPY_SWEEP_INPUT_HPP

/// \file
/// Real logits from files: which tensors there are, whether they fit each other, and whether the losses asked for have
/// what they need. All of it is known before the first case runs.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cases.hpp"
#include "options.hpp"
#include "safetensors.hpp"

namespace entropy_sweep {

class InputData {
 public:
  /// Opens the files of `options.inputs`. Throws SafetensorsError: unreadable or malformed files, a tensor in both
  /// files, missing or of another shape or type than the losses need.
  explicit InputData(const Options& options);

  /// Size and types of the problem in the files.
  const InputShape& shape() const { return shape_; }
  const Tensor& student() const { return *student_; }
  /// Null where the files have none.
  const Tensor* teacher() const { return teacher_; }
  bool has_labels() const { return !labels_.empty(); }
  /// One a row, or empty.
  const std::vector<std::int64_t>& labels() const { return labels_; }
  const std::vector<std::uint8_t>& mask() const { return mask_; }
  /// File names, for the results.
  const std::string& name() const { return name_; }

 private:
  const Tensor* find(const std::string& tensor) const;
  const Tensor* find_per_row(const std::string& tensor) const;

  std::vector<SafetensorsFile> files_{};
  std::string name_{};
  InputShape shape_{};
  const Tensor* student_ = nullptr;
  const Tensor* teacher_ = nullptr;
  std::vector<std::int64_t> labels_{};
  std::vector<std::uint8_t> mask_{};
};

/// The value type that holds a floating tensor type exactly; nothing for the others.
std::optional<ValueType> value_type_of(Dtype dtype);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_INPUT_HPP
