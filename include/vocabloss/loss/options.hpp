// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_OPTIONS_HPP
#define VOCABLOSS_LOSS_OPTIONS_HPP

/// \file
/// \brief The numbers a shipped loss is made from.

namespace vocabloss {

/// With x the logits, t the teacher: p = softmax(logit_scale / temperature * x) and
/// q = softmax(teacher_scale / temperature * t). Every field is dimensionless, finite and positive unless said
/// otherwise; a plan refuses anything else with vocabloss::InvalidArgument.
struct LossOptions {
  /// s: multiplies the logits. Default 1.
  double logit_scale = 1.0;
  /// u: multiplies teacher logits; teacher probabilities are taken as they are. Default 1.
  double teacher_scale = 1.0;
  /// T: divides both scales. Default 1.
  double temperature = 1.0;
  /// Multiplies losses and gradients with T^2, as knowledge distillation does to keep gradients of one size
  /// (Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network", 2015, section 2). Default: no.
  bool temperature_squared = false;
  /// The teacher's weight in the mixture m = (1 - beta) p + beta q of loss::Jsd, in [0, 1]. Exactly 0 is forward KL and
  /// exactly 1 reverse KL by definition (not limits). Default 1/2. Other losses ignore it.
  double jsd_beta = 0.5;
};

}  // namespace vocabloss

#endif
