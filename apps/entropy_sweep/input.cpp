// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "input.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace entropy_sweep {
namespace {

std::string text_of(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

ValueType floating_type(const std::string& where, const Tensor& tensor) {
  const auto type = value_type_of(tensor.dtype);
  if (type) return *type;
  throw SafetensorsError(fmt::format("'{}': tensor '{}' is {}; logits must be BF16, F16, F32 or F64", where,
                                     tensor.name, to_name(tensor.dtype)));
}

}  // namespace

std::optional<ValueType> value_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return ValueType::bf16;
    case Dtype::f16:
      return ValueType::fp16;
    case Dtype::f32:
      return ValueType::fp32;
    case Dtype::f64:
      return ValueType::fp64;
    default:
      return std::nullopt;
  }
}

InputData::InputData(const Options& options) : name_(fmt::format("{}", fmt::join(options.inputs, ","))) {
  for (const std::string& path : options.inputs) files_.emplace_back(path);

  student_ = find("student");
  if (student_ == nullptr) {
    throw SafetensorsError(fmt::format("'{}': no tensor 'student', which holds the logits", name_));
  }
  if (student_->shape.size() != 2 || student_->shape[1] < 1) {
    throw SafetensorsError(
        fmt::format("'{}': tensor 'student' has shape {}; wanted [rows, vocab] with vocab at least 1", name_,
                    text_of(student_->shape)));
  }
  shape_ = {.rows = student_->shape[0], .vocab = student_->shape[1], .type = floating_type(name_, *student_)};

  teacher_ = find("teacher");
  if (teacher_ != nullptr) {
    if (teacher_->shape != student_->shape) {
      throw SafetensorsError(fmt::format("'{}': tensor 'teacher' has shape {}, but 'student' has {}", name_,
                                         text_of(teacher_->shape), text_of(student_->shape)));
    }
    // Another type than the student's is kept apart as float: rounding it to the student's would change the problem.
    // Told a type, both are converted to it; doubles have no separate teacher type.
    const bool differs = floating_type(name_, *teacher_) != shape_.type;
    if (differs && shape_.type != ValueType::fp64 && !options.type_given) shape_.teacher = ValueType::fp32;
  }

  if (const Tensor* labels = find_per_row("labels")) {
    if (labels->dtype != Dtype::i64 && labels->dtype != Dtype::i32) {
      throw SafetensorsError(
          fmt::format("'{}': tensor 'labels' is {}; wanted I64 or I32", name_, to_name(labels->dtype)));
    }
    labels_ = to_integers(*labels);
  }
  if (const Tensor* mask = find_per_row("mask")) {
    if (mask->dtype != Dtype::u8 && mask->dtype != Dtype::boolean) {
      throw SafetensorsError(fmt::format("'{}': tensor 'mask' is {}; wanted U8 or BOOL", name_, to_name(mask->dtype)));
    }
    for (const std::int64_t value : to_integers(*mask)) mask_.push_back(value != 0 ? 1 : 0);
  }

  for (const Loss loss : options.losses) {
    const bool no_teacher = needs_teacher(loss) && teacher_ == nullptr;
    const bool no_labels = needs_labels(loss) && find("labels") == nullptr;
    if (!no_teacher && !no_labels) continue;
    throw SafetensorsError(fmt::format("'{}': no tensor '{}', which --loss {} needs; add a file that holds it", name_,
                                       no_teacher ? "teacher" : "labels", to_name(loss)));
  }
}

const Tensor* InputData::find(const std::string& tensor) const {
  const Tensor* found = nullptr;
  for (const SafetensorsFile& file : files_) {
    if (!file.contains(tensor)) continue;
    if (found != nullptr) {
      throw SafetensorsError(fmt::format("'{}': tensor '{}' is in both files; leave one of them out", name_, tensor));
    }
    found = &file.tensor(tensor);
  }
  return found;
}

const Tensor* InputData::find_per_row(const std::string& tensor) const {
  const Tensor* found = find(tensor);
  if (found != nullptr && found->shape != std::vector<std::int64_t>{shape_.rows}) {
    throw SafetensorsError(fmt::format("'{}': tensor '{}' has shape {}; wanted [{}], one value a row of 'student'",
                                       name_, tensor, text_of(found->shape), shape_.rows));
  }
  return found;
}

}  // namespace entropy_sweep
