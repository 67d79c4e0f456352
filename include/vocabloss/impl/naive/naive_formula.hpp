// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_NAIVE_NAIVE_FORMULA_HPP
#define VOCABLOSS_IMPL_NAIVE_NAIVE_FORMULA_HPP

/// \file
/// \brief Which textbook formula stands for a loss: path `naive` writes every loss out by hand and uses nothing of the
/// algebra but its numbers.

#include <vocabloss/loss/losses.hpp>

namespace vocabloss::Impl {

enum class NaiveLoss : int {
  none,  ///< a user's own loss: nobody wrote its formula out
  cross_entropy,
  log_prob,
  soft_cross_entropy,
  soft_cross_entropy_probabilities,
  forward_kl,
  reverse_kl,
  jsd,
  z_loss,
  entropy,
  log_prob_entropy
};

template <class Loss>
inline constexpr NaiveLoss naive_loss_of = NaiveLoss::none;
template <class Real>
inline constexpr NaiveLoss naive_loss_of<loss::CrossEntropy<Real>> = NaiveLoss::cross_entropy;
template <class Real>
inline constexpr NaiveLoss naive_loss_of<loss::LogProb<Real>> = NaiveLoss::log_prob;
template <class Real>
inline constexpr NaiveLoss naive_loss_of<loss::SoftCrossEntropy<Real>> = NaiveLoss::soft_cross_entropy;
template <class Real>
inline constexpr NaiveLoss naive_loss_of<loss::SoftCrossEntropyProbabilities<Real>> =
    NaiveLoss::soft_cross_entropy_probabilities;
template <class Real>
inline constexpr NaiveLoss naive_loss_of<loss::ForwardKl<Real>> = NaiveLoss::forward_kl;
template <class Real>
inline constexpr NaiveLoss naive_loss_of<loss::ReverseKl<Real>> = NaiveLoss::reverse_kl;
template <class Real>
inline constexpr NaiveLoss naive_loss_of<loss::Jsd<Real>> = NaiveLoss::jsd;
template <class Real>
inline constexpr NaiveLoss naive_loss_of<loss::ZLoss<Real>> = NaiveLoss::z_loss;
template <class Real>
inline constexpr NaiveLoss naive_loss_of<loss::Entropy<Real>> = NaiveLoss::entropy;
template <class Real>
inline constexpr NaiveLoss naive_loss_of<loss::LogProbEntropy<Real>> = NaiveLoss::log_prob_entropy;

/// A loss as data, so that one function serves them all.
template <class Real>
struct NaiveFormula {
  NaiveLoss loss = NaiveLoss::none;
  Real logit_scale = Real(1);    ///< s / T
  Real teacher_scale = Real(1);  ///< u / T
  Real jsd_beta = Real(0.5);

  bool has_teacher() const { return loss == NaiveLoss::soft_cross_entropy_probabilities || has_teacher_logits(); }
  bool has_teacher_logits() const {
    return loss == NaiveLoss::soft_cross_entropy || loss == NaiveLoss::forward_kl || loss == NaiveLoss::reverse_kl ||
           loss == NaiveLoss::jsd;
  }
  bool has_label() const {
    return loss == NaiveLoss::cross_entropy || loss == NaiveLoss::log_prob || loss == NaiveLoss::log_prob_entropy;
  }
};

template <class Loss, class Real = typename Loss::Real>
NaiveFormula<Real> naive_formula(const Loss& loss) {
  NaiveFormula<Real> formula;
  formula.loss = naive_loss_of<Loss>;
  if constexpr (naive_loss_of<Loss> != NaiveLoss::none) {
    if constexpr (Loss::streams == 2 && Loss::teacher_is_logits) {
      formula.logit_scale = loss.scale.x;
      formula.teacher_scale = static_cast<Real>(static_cast<double>(loss.scale.t_log2) / loss::log2_of_e);
    } else {
      formula.logit_scale = loss.scale;
    }
    if constexpr (naive_loss_of<Loss> == NaiveLoss::jsd) formula.jsd_beta = loss.beta;
  }
  return formula;
}

}  // namespace vocabloss::Impl

#endif
