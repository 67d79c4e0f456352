// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "dump.hpp"

#include <span>
#include <utility>

#include "safetensors.hpp"

namespace entropy_sweep {

void Dump::add_doubles(const std::string& name, std::vector<double> values) {
  const auto& kept = doubles_.emplace_back(std::move(values));
  tensors_.push_back({name, Dtype::f64, {rows_}, std::as_bytes(std::span(kept))});
}

void Dump::add_losses(Loss loss, const std::vector<std::vector<double>>& outputs) {
  const std::string name = "loss_" + std::string(to_name(loss));
  std::vector<double> total = outputs.front();
  for (std::size_t k = 1; k < outputs.size(); ++k) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += outputs[k][i];
  }
  add_doubles(name, std::move(total));
  if (loss == Loss::log_prob_entropy && outputs.size() == 2) {
    add_doubles(name + ".log_prob", outputs[0]);
    add_doubles(name + ".entropy", outputs[1]);
  }
}

void Dump::add_gradient(Loss loss, const std::vector<double>& values) {
  const auto& kept = floats_.emplace_back(values.begin(), values.end());
  tensors_.push_back(
      {"grad_" + std::string(to_name(loss)), Dtype::f32, {rows_, vocab_}, std::as_bytes(std::span(kept))});
}

void Dump::write(const std::string& path) const {
  write_safetensors(path, tensors_, {{"units", "nats"}, {"gradient", "of each row's own loss, upstream gradient 1"}});
}

}  // namespace entropy_sweep
