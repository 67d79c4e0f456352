// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLUSTER_SHIPPED_CUH
#define VOCABLOSS_IMPL_CUDA_CLUSTER_SHIPPED_CUH

/// \file
/// \brief Path `cluster` for shipped losses, compiled once into VocabLoss::cuda, and for any other loss where it is
/// used.

#include <vocabloss/impl/cuda/cluster_launch.cuh>
#include <vocabloss/loss/losses.hpp>

namespace vocabloss::Impl {

#define VOCABLOSS_CLUSTER_SHIPPED(Loss, Logit)                                                                         \
  extern template void launch_cluster<loss::Loss<float>, Logit>(const loss::Loss<float>&, const RowCall<float>&, Pass, \
                                                                const ClusterShape&, ClusterTickets*, cudaStream_t,    \
                                                                float*);                                               \
  extern template void launch_cluster_over_ranks<loss::Loss<float>, Logit>(                                            \
      const loss::Loss<float>&, const RowCall<float>&, Pass, const ClusterShape&, ClusterTickets*,                     \
      const PeerExchange&, cudaStream_t);
#define VOCABLOSS_CLUSTER_SHIPPED_TYPES(Loss) \
  VOCABLOSS_CLUSTER_SHIPPED(Loss, bfloat16)   \
  VOCABLOSS_CLUSTER_SHIPPED(Loss, float16)    \
  VOCABLOSS_CLUSTER_SHIPPED(Loss, float)

VOCABLOSS_CLUSTER_SHIPPED_TYPES(CrossEntropy)
VOCABLOSS_CLUSTER_SHIPPED_TYPES(LogProb)
VOCABLOSS_CLUSTER_SHIPPED_TYPES(SoftCrossEntropy)
VOCABLOSS_CLUSTER_SHIPPED_TYPES(SoftCrossEntropyProbabilities)
VOCABLOSS_CLUSTER_SHIPPED_TYPES(ForwardKl)
VOCABLOSS_CLUSTER_SHIPPED_TYPES(ReverseKl)
VOCABLOSS_CLUSTER_SHIPPED_TYPES(Jsd)
VOCABLOSS_CLUSTER_SHIPPED_TYPES(ZLoss)
VOCABLOSS_CLUSTER_SHIPPED_TYPES(Entropy)
VOCABLOSS_CLUSTER_SHIPPED_TYPES(LogProbEntropy)

#undef VOCABLOSS_CLUSTER_SHIPPED_TYPES
#undef VOCABLOSS_CLUSTER_SHIPPED

}  // namespace vocabloss::Impl

#endif
