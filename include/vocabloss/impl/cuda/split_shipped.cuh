// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_SPLIT_SHIPPED_CUH
#define VOCABLOSS_IMPL_CUDA_SPLIT_SHIPPED_CUH

/// \file
/// \brief Path `split` for shipped losses, compiled once into VocabLoss::cuda, and for any other loss where it is used.

#include <vocabloss/impl/cuda/split_launch.cuh>
#include <vocabloss/loss/losses.hpp>

namespace vocabloss::Impl {

#define VOCABLOSS_SPLIT_SHIPPED(Loss, Logit)                   \
  extern template void launch_split<loss::Loss<float>, Logit>( \
      const loss::Loss<float>&, const RowCall<float>&, vocabloss::Pass, const SplitShape&, void*, cudaStream_t);
#define VOCABLOSS_SPLIT_SHIPPED_TYPES(Loss) \
  VOCABLOSS_SPLIT_SHIPPED(Loss, bfloat16)   \
  VOCABLOSS_SPLIT_SHIPPED(Loss, float16)    \
  VOCABLOSS_SPLIT_SHIPPED(Loss, float)

VOCABLOSS_SPLIT_SHIPPED_TYPES(CrossEntropy)
VOCABLOSS_SPLIT_SHIPPED_TYPES(LogProb)
VOCABLOSS_SPLIT_SHIPPED_TYPES(SoftCrossEntropy)
VOCABLOSS_SPLIT_SHIPPED_TYPES(SoftCrossEntropyProbabilities)
VOCABLOSS_SPLIT_SHIPPED_TYPES(ForwardKl)
VOCABLOSS_SPLIT_SHIPPED_TYPES(ReverseKl)
VOCABLOSS_SPLIT_SHIPPED_TYPES(Jsd)
VOCABLOSS_SPLIT_SHIPPED_TYPES(ZLoss)
VOCABLOSS_SPLIT_SHIPPED_TYPES(Entropy)
VOCABLOSS_SPLIT_SHIPPED_TYPES(LogProbEntropy)

#undef VOCABLOSS_SPLIT_SHIPPED_TYPES
#undef VOCABLOSS_SPLIT_SHIPPED

}  // namespace vocabloss::Impl

#endif
