// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_ROW_LOSSES_CUH
#define VOCABLOSS_ROW_LOSSES_CUH

/// \file
/// \brief The losses that the checks of the CUDA paths run: all shipped ones, some of them with other options too.

#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/loss/losses.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <functional>

#include "row_oracle.hpp"

namespace row_check {

using Impl::RowCall;
/// Enqueues one call on a path; what the path needs beside the call is the program's business.
using Launch = std::function<void(DataType, const RowCall<float>&, Pass)>;

/// A loss as the checks know it.
struct RowLoss {
  const char* name;
  LossOptions options;
  int streams, rounds, outputs, statistics;
  bool needs_label, teacher_is_logits;
  Terms terms;
  std::function<reference::RowOutput(const reference::RowInput&)> expected;
};

template <template <class> class Loss>
RowLoss row_loss(const char* name, Terms terms, LossOptions options) {
  using L = Loss<float>;
  RowLoss loss{name,           options,
               L::streams,     L::rounds,
               L::outputs,     static_cast<int>(sizeof(typename L::Statistics) / sizeof(float)),
               L::needs_label, L::teacher_is_logits,
               terms,          {}};
  loss.expected = [options](const reference::RowInput& row) { return reference::evaluate(Loss<double>(options), row); };
  return loss;
}

/// visit.template operator()<Loss>(facts) for every loss.
template <class Visitor>
void for_each_loss(const Visitor& visit) {
  const auto one = [&]<template <class> class Loss>(const char* name, Terms terms, LossOptions options = {}) {
    visit.template operator()<Loss>(row_loss<Loss>(name, terms, options));
  };
  one.template operator()<loss::CrossEntropy>("cross_entropy", TermsOf::label);
  one.template operator()<loss::LogProb>("log_prob", TermsOf::label);
  one.template operator()<loss::SoftCrossEntropy>("soft_cross_entropy", TermsOf::teacher_logits);
  one.template operator()<loss::SoftCrossEntropyProbabilities>("soft_cross_entropy_probabilities",
                                                               TermsOf::probabilities);
  one.template operator()<loss::ForwardKl>("forward_kl", TermsOf::teacher_logits);
  one.template operator()<loss::ReverseKl>("reverse_kl", TermsOf::reverse_kl);
  one.template operator()<loss::Jsd>("jsd", TermsOf::jsd);
  one.template operator()<loss::ZLoss>("z_loss", TermsOf::z_loss);
  one.template operator()<loss::Entropy>("entropy", TermsOf::entropy<0>);
  one.template operator()<loss::LogProbEntropy>("log_prob_entropy", TermsOf::label_and_entropy);
  LossOptions scaled;
  scaled.logit_scale = 1.25, scaled.teacher_scale = 0.75, scaled.temperature = 2, scaled.jsd_beta = 0.2;
  one.template operator()<loss::ReverseKl>("reverse_kl, scaled", TermsOf::reverse_kl, scaled);
  one.template operator()<loss::Jsd>("jsd(0.2), scaled", TermsOf::jsd, scaled);
  one.template operator()<loss::LogProbEntropy>("log_prob_entropy, scaled", TermsOf::label_and_entropy, scaled);
}

}  // namespace row_check

#endif
