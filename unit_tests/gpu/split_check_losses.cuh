// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_SPLIT_CHECK_LOSSES_CUH
#define VOCABLOSS_SPLIT_CHECK_LOSSES_CUH

/// \file
/// \brief The losses that split_check runs: all shipped ones, some with other options, and one of a user's own.

#include "split_check_case.cuh"

namespace split_check {

/// A user's own loss: twice the z-loss.
template <class Real>
struct TwiceZLoss : loss::ZLoss<Real> {
  using Base = loss::ZLoss<Real>;
  using Base::Base;
  KOKKOS_INLINE_FUNCTION Real value(const typename Base::Statistics& statistics, int output) const {
    return Real(2) * Base::value(statistics, output);
  }
  KOKKOS_INLINE_FUNCTION typename Base::GradientRow gradient_row(const typename Base::Statistics& statistics,
                                                                 const loss::Row<Real>& row) const {
    auto slope = Base::gradient_row(statistics, row);
    slope.factor *= Real(2);
    return slope;
  }
};

template <template <class> class Loss>
LossEntry entry(const char* name, LossOptions options = {}) {
  using L = Loss<float>;
  LossEntry result{name,
                   L::streams,
                   L::needs_label,
                   L::teacher_is_logits,
                   L::outputs,
                   int(sizeof(typename L::Statistics) / 4),
                   {},
                   {},
                   {},
                   Impl::split_blocks_of<L>};
  result.launch = [options](DataType type, const RowCall<float>& call, Pass pass, const SplitShape& shape,
                            void* workspace, cudaStream_t stream) {
    const L loss(options);
    if (type == DataType::bf16) Impl::launch_split<L, bfloat16>(loss, call, pass, shape, workspace, stream);
    if (type == DataType::fp16) Impl::launch_split<L, float16>(loss, call, pass, shape, workspace, stream);
    if (type == DataType::fp32) Impl::launch_split<L, float>(loss, call, pass, shape, workspace, stream);
  };
  result.expected = [options](const reference::RowInput& row) {
    return reference::evaluate(Loss<double>(options), row);
  };
  result.workspace_bytes = [](const SplitShape& shape) { return Impl::split_workspace_bytes<L>(shape); };
  return result;
}

inline std::vector<LossEntry> losses() {
  LossOptions scaled;
  scaled.logit_scale = 1.25, scaled.teacher_scale = 0.75, scaled.temperature = 2, scaled.jsd_beta = 0.2;
  return {entry<loss::CrossEntropy>("cross_entropy"),
          entry<loss::LogProb>("log_prob"),
          entry<loss::SoftCrossEntropy>("soft_cross_entropy"),
          entry<loss::SoftCrossEntropyProbabilities>("soft_cross_entropy_probabilities"),
          entry<loss::ForwardKl>("forward_kl"),
          entry<loss::ReverseKl>("reverse_kl"),
          entry<loss::Jsd>("jsd"),
          entry<loss::ZLoss>("z_loss"),
          entry<loss::Entropy>("entropy"),
          entry<loss::LogProbEntropy>("log_prob_entropy"),
          entry<loss::Jsd>("jsd(0.2), scaled", scaled),
          entry<loss::ReverseKl>("reverse_kl, scaled", scaled),
          entry<TwiceZLoss>("own loss")};
}

}  // namespace split_check

#endif
