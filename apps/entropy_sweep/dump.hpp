// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_DUMP_HPP
#define ENTROPY_SWEEP_DUMP_HPP

/// \file
/// The values behind a sweep, collected loss by loss and written as one safetensors file.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "names.hpp"
#include "tensor.hpp"

namespace entropy_sweep {

class Dump {
 public:
  Dump(std::int64_t rows, std::int64_t vocab) : rows_(rows), vocab_(vocab) {}

  /// `loss_<name>` [rows], float64. A loss with two outputs: `outputs` holds both, the tensor of the loss's own name is
  /// their sum (the quantity whose gradient it is), and each output gets a tensor `loss_<name>.<output>` beside it.
  void add_losses(Loss loss, const std::vector<std::vector<double>>& outputs);
  /// `grad_<name>` [rows, vocab], float32.
  void add_gradient(Loss loss, const std::vector<double>& values);

  /// Writes the file, whole or not at all.
  void write(const std::string& path) const;

 private:
  void add_doubles(const std::string& name, std::vector<double> values);

  std::int64_t rows_;
  std::int64_t vocab_;
  std::deque<std::vector<double>> doubles_{};  // a deque does not move what tensors_ points to
  std::deque<std::vector<float>> floats_{};
  std::vector<Tensor> tensors_{};
};

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_DUMP_HPP
