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
  std::function<reference::RowOutput(const reference::RowInput&)> expected;
};

template <template <class> class Loss>
RowLoss row_loss(const char* name, LossOptions options) {
  using L = Loss<float>;
  RowLoss loss{name,
               options,
               L::streams,
               L::rounds,
               L::outputs,
               static_cast<int>(sizeof(typename L::Statistics) / sizeof(float)),
               L::needs_label,
               L::teacher_is_logits,
               {}};
  loss.expected = [options](const reference::RowInput& row) { return reference::evaluate(Loss<double>(options), row); };
  return loss;
}

/// visit.template operator()<Loss>(facts) for every loss.
template <class Visitor>
void for_each_loss(const Visitor& visit) {
  const auto one = [&]<template <class> class Loss>(const char* name, LossOptions options = {}) {
    visit.template operator()<Loss>(row_loss<Loss>(name, options));
  };
  one.template operator()<loss::CrossEntropy>("cross_entropy");
  one.template operator()<loss::LogProb>("log_prob");
  one.template operator()<loss::SoftCrossEntropy>("soft_cross_entropy");
  one.template operator()<loss::SoftCrossEntropyProbabilities>("soft_cross_entropy_probabilities");
  one.template operator()<loss::ForwardKl>("forward_kl");
  one.template operator()<loss::ReverseKl>("reverse_kl");
  one.template operator()<loss::Jsd>("jsd");
  one.template operator()<loss::ZLoss>("z_loss");
  one.template operator()<loss::Entropy>("entropy");
  one.template operator()<loss::LogProbEntropy>("log_prob_entropy");
  LossOptions scaled;
  scaled.logit_scale = 1.25, scaled.teacher_scale = 0.75, scaled.temperature = 2, scaled.jsd_beta = 0.2;
  one.template operator()<loss::ReverseKl>("reverse_kl, scaled", scaled);
  one.template operator()<loss::Jsd>("jsd(0.2), scaled", scaled);
  one.template operator()<loss::LogProbEntropy>("log_prob_entropy, scaled", scaled);
}

}  // namespace row_check

#endif
