// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#include "support/call.hpp"

#include <cmath>
#include <stdexcept>

#include "support/shapes.hpp"

namespace test {

extern const LossEntry entry_of_CrossEntropy, entry_of_LogProb, entry_of_SoftCrossEntropy,
    entry_of_SoftCrossEntropyProbabilities, entry_of_ForwardKl, entry_of_ReverseKl, entry_of_Jsd, entry_of_ZLoss,
    entry_of_Entropy, entry_of_LogProbEntropy;

const std::vector<LossEntry>& all_losses() {
  static const std::vector<LossEntry> losses = {entry_of_CrossEntropy,
                                                entry_of_LogProb,
                                                entry_of_SoftCrossEntropy,
                                                entry_of_SoftCrossEntropyProbabilities,
                                                entry_of_ForwardKl,
                                                entry_of_ReverseKl,
                                                entry_of_Jsd,
                                                entry_of_ZLoss,
                                                entry_of_Entropy,
                                                entry_of_LogProbEntropy};
  return losses;
}

const LossEntry& loss_named(const std::string& name) {
  for (const LossEntry& loss : all_losses()) {
    if (loss.name == name) return loss;
  }
  throw std::invalid_argument("no loss is called " + name);
}

double round_to(DataType type, double value) {
  using namespace vocabloss;
  switch (type) {
    case DataType::bf16:
      return widen(narrow<bfloat16>(static_cast<float>(value)));
    case DataType::fp16:
      return widen(narrow<float16>(static_cast<float>(value)));
    case DataType::fp32:
      return static_cast<float>(value);
    case DataType::fp64:
      break;
  }
  return value;
}

Call ordinary_call(const LossEntry& loss, std::int64_t rows, std::int64_t columns, unsigned seed) {
  Call call;
  call.rows = rows;
  call.columns = columns;
  call.x = logits(rows * columns, seed);
  if (loss.streams == 2) {
    call.t = loss.teacher_is_logits ? teacher_for(call.x, seed + 1) : probabilities(rows, columns, seed + 1);
  }
  if (loss.needs_label) call.labels = labels(rows, columns, seed + 2);
  return call;
}

}  // namespace test
