// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_SRC_PORTABLE_NAIVE_LOSSES_HPP
#define VOCABLOSS_SRC_PORTABLE_NAIVE_LOSSES_HPP

/// \file
/// \brief Path `naive`: the shipped losses, each written out from the textbook over the kernels of naive_kernels.hpp.

#include "naive_kernels.hpp"

#include <vocabloss/impl/naive/naive_path.hpp>

namespace vocabloss::Impl {

/// log_p = log softmax(scale * stream), p = softmax(scale * stream), row by row; sums[i] = sum of e^(scale * (x -
/// max)), or NaN where the row holds NaN, plus infinity, or no finite value at all: that makes the whole row NaN.
template <class Real, class Exec>
void softmax(const NaiveStep<Real, Exec>& step, const Stream& stream, Real scale, Real* log_p, Real* p, Real* maxima,
             Real* sums) {
  const std::int64_t padded = step.work.padded;
  const int columns = step.call.columns;
  convert(step, stream, log_p);
  row_maxima(step, log_p, maxima);
  for_elements(
      step, "VocabLoss::naive::subtract_maximum",
      KOKKOS_LAMBDA(const std::int64_t i, const int j) { log_p[i * padded + j] -= maxima[i]; });
  if (scale != Real(1)) blas_scale(step.exec, log_p, step.elements(), scale);
  for_elements(
      step, "VocabLoss::naive::exp", KOKKOS_LAMBDA(const std::int64_t i, const int j) {
        p[i * padded + j] = j < columns ? Kokkos::exp(log_p[i * padded + j]) : Real(0);
      });
  row_sums(step, p, sums);
  for_rows(
      step, "VocabLoss::naive::check_sum", KOKKOS_LAMBDA(const std::int64_t i) {
        if (!loss::is_softmax_sum(sums[i])) sums[i] = loss::not_a_number<Real>();
      });
  for_elements(
      step, "VocabLoss::naive::softmax",
      KOKKOS_LAMBDA(const std::int64_t i, const int j) { p[i * padded + j] /= sums[i]; });
  for_elements(
      step, "VocabLoss::naive::log_softmax",
      KOKKOS_LAMBDA(const std::int64_t i, const int j) { log_p[i * padded + j] -= Kokkos::log(sums[i]); });
}

/// q as it was given, and its sum.
template <class Real, class Exec>
void given_probabilities(const NaiveStep<Real, Exec>& step, const Stream& stream, Real* q, Real* sums) {
  convert(step, stream, q);
  row_sums(step, q, sums);
  for_rows(
      step, "VocabLoss::naive::check_sum", KOKKOS_LAMBDA(const std::int64_t i) {
        const bool finite = sums[i] > Real(-1e30) && sums[i] < Real(1e30);
        if (!finite) sums[i] = loss::not_a_number<Real>();
      });
}

/// log_m = log((1 - beta) p + beta q), relative to the larger of the two, so that nothing underflows.
template <class Real, class Exec>
void log_mixture(const NaiveStep<Real, Exec>& step, const Real* log_p, const Real* log_q, Real* log_m) {
  const std::int64_t padded = step.work.padded;
  const Real beta = step.formula.jsd_beta;
  for_elements(
      step, "VocabLoss::naive::log_mixture", KOKKOS_LAMBDA(const std::int64_t i, const int j) {
        const std::int64_t k = i * padded + j;
        const bool student_is_larger = log_p[k] > log_q[k];
        const Real larger = student_is_larger ? log_p[k] : log_q[k];
        const Real smaller = student_is_larger ? log_q[k] : log_p[k];
        const Real of_larger = student_is_larger ? Real(1) - beta : beta;
        log_m[k] = larger + Kokkos::log(of_larger + (Real(1) - of_larger) * Kokkos::exp(smaller - larger));
      });
}

/// The terms of the loss as a matrix, and their sums a row.
template <class Real, class Exec>
void sum_terms(const NaiveStep<Real, Exec>& step) {
  const NaiveWorkspace<Real>& w = step.work;
  const Real* none = nullptr;
  switch (step.formula.loss) {
    case NaiveLoss::soft_cross_entropy:
    case NaiveLoss::soft_cross_entropy_probabilities:
      weighted_difference<Real>(step, w.q, w.log_p, none, none, Real(0), w.product);
      break;
    case NaiveLoss::forward_kl:
      weighted_difference<Real>(step, w.q, w.log_q, w.log_p, none, Real(0), w.product);
      break;
    case NaiveLoss::reverse_kl:
      weighted_difference<Real>(step, w.p, w.log_p, w.log_q, none, Real(0), w.product);
      break;
    case NaiveLoss::jsd:
      log_mixture<Real>(step, w.log_p, w.log_q, w.log_m);
      weighted_difference<Real>(step, w.q, w.log_q, w.log_m, none, Real(0), w.product);
      row_sums<Real>(step, w.product, w.row_sum_2);
      weighted_difference<Real>(step, w.p, w.log_p, w.log_m, none, Real(0), w.product);
      break;
    case NaiveLoss::entropy:
    case NaiveLoss::log_prob_entropy:
      weighted_difference<Real>(step, w.p, w.log_p, none, none, Real(0), w.product);
      break;
    default:
      return;  // the softmax and the label say it all
  }
  row_sums<Real>(step, w.product, w.row_sum);
}

/// log p of each row's label, in `row_sum_2`; it lies on one of the ranks.
template <class Real, class Exec>
void label_log_probs(const NaiveStep<Real, Exec>& step) {
  const RowCall<Real> call = step.call;
  const NaiveWorkspace<Real> w = step.work;
  for_rows(
      step, "VocabLoss::naive::label", KOKKOS_LAMBDA(const std::int64_t i) {
        const int label = row_facts(call, i).row.label;
        w.row_sum_2[i] = label >= 0 ? w.log_p[i * w.padded + label] : Real(0);
      });
  if (step.ranks) step.ranks->sum(w.row_sum_2, call.rows);
}

/// A row's scalars, once everything that reduces is done.
template <class Real>
struct NaiveRow {
  NaiveFormula<Real> formula;
  NaiveWorkspace<Real> work;
  bool has_teacher;

  KOKKOS_INLINE_FUNCTION bool is_poisoned(const RowFacts<Real>& facts, std::int64_t i) const {
    const bool student = !(work.sum_x[i] == work.sum_x[i]);
    const bool teacher = has_teacher && !(work.sum_t[i] == work.sum_t[i]);
    return facts.status == RowStatus::poisoned || student || teacher;
  }
  KOKKOS_INLINE_FUNCTION Real log_sum_exp(std::int64_t i) const {
    return formula.logit_scale * work.max_x[i] + Kokkos::log(work.sum_x[i]);
  }
  KOKKOS_INLINE_FUNCTION Real value(const RowFacts<Real>& facts, std::int64_t i, int output) const {
    const Real log_prob = work.row_sum_2[i];
    if (is_poisoned(facts, i)) return loss::not_a_number<Real>();
    switch (formula.loss) {
      case NaiveLoss::cross_entropy:
        return -log_prob;
      case NaiveLoss::log_prob:
        return log_prob;
      case NaiveLoss::log_prob_entropy:
        return output == 0 ? log_prob : -work.row_sum[i];
      case NaiveLoss::entropy:
      case NaiveLoss::soft_cross_entropy:
      case NaiveLoss::soft_cross_entropy_probabilities:
        return -work.row_sum[i];
      case NaiveLoss::jsd:
        return formula.jsd_beta * work.row_sum_2[i] + (Real(1) - formula.jsd_beta) * work.row_sum[i];
      case NaiveLoss::z_loss:
        return log_sum_exp(i) * log_sum_exp(i);
      default:
        return work.row_sum[i];
    }
  }
  /// What the row's product is multiplied with, and what the label's column gains.
  KOKKOS_INLINE_FUNCTION void factors(const RowFacts<Real>& facts, std::int64_t i, Real& factor, Real& at_label) const {
    const Real upstream = facts.row.upstream[0] * formula.logit_scale;
    factor = upstream;
    at_label = Real(0);
    switch (formula.loss) {
      case NaiveLoss::cross_entropy:
        at_label = -upstream;
        break;
      case NaiveLoss::log_prob:
        factor = -upstream;
        at_label = upstream;
        break;
      case NaiveLoss::entropy:
        factor = -upstream;
        break;
      case NaiveLoss::log_prob_entropy:
        factor = -facts.row.upstream[1] * formula.logit_scale;
        at_label = upstream;
        break;
      case NaiveLoss::jsd:
        factor = upstream * (Real(1) - formula.jsd_beta);
        break;
      case NaiveLoss::z_loss:
        factor = upstream * Real(2) * log_sum_exp(i);
        break;
      case NaiveLoss::reverse_kl:  // infinite where the teacher excludes what the student allows
        if (!(work.row_sum[i] < Real(1e30))) factor = loss::not_a_number<Real>();
        break;
      default:
        break;
    }
    if (is_poisoned(facts, i)) factor = loss::not_a_number<Real>();
  }
};

template <class Real, class Exec>
void write_losses(const NaiveStep<Real, Exec>& step) {
  const RowCall<Real> call = step.call;
  const NaiveRow<Real> row{step.formula, step.work, step.formula.has_teacher()};
  for_rows(
      step, "VocabLoss::naive::losses", KOKKOS_LAMBDA(const std::int64_t i) {
        const RowFacts<Real> facts = row_facts(call, i);
        for (int output = 0; output < 2; ++output) {
          if (!call.losses[output]) continue;
          const bool masked = facts.status == RowStatus::masked;
          call.losses[output][i * call.losses_stride[output]] =
              masked ? Real(0) : row.value(facts, i, output) * facts.loss_weight;
        }
      });
}

/// The gradient of a row over its factor, in `product`.
template <class Real, class Exec>
void gradient_terms(const NaiveStep<Real, Exec>& step) {
  const NaiveWorkspace<Real>& w = step.work;
  switch (step.formula.loss) {
    case NaiveLoss::reverse_kl:
      return weighted_difference<Real>(step, w.p, w.log_p, w.log_q, w.row_sum, Real(-1), w.product);
    case NaiveLoss::jsd:
      return weighted_difference<Real>(step, w.p, w.log_p, w.log_m, w.row_sum, Real(-1), w.product);
    case NaiveLoss::entropy:
    case NaiveLoss::log_prob_entropy:  // log p + H, and the row's sum is -H
      return weighted_difference<Real>(step, w.p, w.log_p, nullptr, w.row_sum, Real(-1), w.product);
    case NaiveLoss::soft_cross_entropy_probabilities:
      copy<Real>(step, w.p, w.product);
      scale_rows<Real>(step, w.product, w.sum_t);
      return blas_subtract<Real>(step.exec, w.product, w.q, step.elements());
    case NaiveLoss::soft_cross_entropy:
    case NaiveLoss::forward_kl:
      copy<Real>(step, w.p, w.product);
      return blas_subtract<Real>(step.exec, w.product, w.q, step.elements());
    default:
      return copy<Real>(step, w.p, w.product);
  }
}

template <class Real, class Exec>
void write_gradient(const NaiveStep<Real, Exec>& step) {
  const RowCall<Real> call = step.call;
  const NaiveWorkspace<Real> w = step.work;
  const NaiveRow<Real> row{step.formula, w, step.formula.has_teacher()};
  gradient_terms(step);
  for_rows(
      step, "VocabLoss::naive::row_factors",
      KOKKOS_LAMBDA(const std::int64_t i) { row.factors(row_facts(call, i), i, w.factor[i], w.factor_2[i]); });
  scale_rows<Real>(step, w.product, w.factor);
  if (step.formula.loss == NaiveLoss::log_prob_entropy) {
    for_elements(
        step, "VocabLoss::naive::subtract_softmax", KOKKOS_LAMBDA(const std::int64_t i, const int j) {
          w.product[i * w.padded + j] -= w.factor_2[i] * w.p[i * w.padded + j];
        });
  }
  if (step.formula.has_label()) {
    for_rows(
        step, "VocabLoss::naive::at_label", KOKKOS_LAMBDA(const std::int64_t i) {
          const int label = row_facts(call, i).row.label;
          if (label >= 0) w.product[i * w.padded + label] += w.factor_2[i];
        });
  }
  store_gradient<Real>(step, w.product);
}

template <class Real, class Exec>
void run_naive(const Exec& exec, const NaiveFormula<Real>& formula, const RowCall<Real>& call, Pass pass,
               void* workspace, const NaiveRanks<Real>* ranks) {
  if (call.rows == 0 || (call.columns == 0 && !ranks)) return;
  const auto work = NaiveWorkspace<Real>::at(workspace, formula.loss, call.rows, call.columns);
  const NaiveStep<Real, Exec> step{exec, formula, call, work, ranks};
  const Kokkos::View<Real*, typename Exec::memory_space, Kokkos::MemoryUnmanaged> ones(
      work.ones, work.block_columns > work.blocks ? work.block_columns : work.blocks);
  Kokkos::deep_copy(exec, ones, Real(1));
  softmax<Real>(step, call.logits, formula.logit_scale, work.log_p, work.p, work.max_x, work.sum_x);
  if (formula.has_teacher_logits()) {
    softmax<Real>(step, call.teacher, formula.teacher_scale, work.log_q, work.q, work.max_t, work.sum_t);
  } else if (formula.has_teacher()) {
    given_probabilities<Real>(step, call.teacher, work.q, work.sum_t);
  }
  sum_terms(step);
  if (formula.has_label()) label_log_probs(step);
  if (pass != Pass::backward) write_losses(step);
  if (pass != Pass::forward && call.gradient.data) write_gradient(step);
}

}  // namespace vocabloss::Impl

#endif
