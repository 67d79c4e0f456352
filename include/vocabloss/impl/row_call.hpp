// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_ROW_CALL_HPP
#define VOCABLOSS_IMPL_ROW_CALL_HPP

/// \file
/// \brief One call in canonical form: raw pointers, strides and factors, the only thing that kernels are given.
///
/// Every path reads its rows through `row_facts` and writes its losses through `store_losses`, so that mask, labels,
/// weights and poison mean the same everywhere.

#include <vocabloss/loss/concept.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Macros.hpp>

#include <cstdint>

namespace vocabloss::Impl {

/// Rows of stored values; strides count elements. The last index of a row is contiguous.
struct Stream {
  const void* data = nullptr;
  DataType type = DataType::fp32;
  std::int64_t stride = 0;

  template <class T>
  KOKKOS_INLINE_FUNCTION const T* row(std::int64_t i) const {
    return static_cast<const T*>(data) + i * stride;
  }
};

/// Where the gradient goes: stored in `type`, over what was there or added to it. Null data: no gradient is asked for.
struct GradientStream {
  void* data = nullptr;
  DataType type = DataType::fp32;
  std::int64_t stride = 0;
  bool accumulate = false;

  template <class T>
  KOKKOS_INLINE_FUNCTION T* row(std::int64_t i) const {
    return static_cast<T*>(data) + i * stride;
  }
};

/// A value per row behind a stride (0: the same for all); null: `absent`.
template <class T>
struct PerRow {
  const T* data = nullptr;
  std::int64_t stride = 1;

  KOKKOS_INLINE_FUNCTION T at(std::int64_t i, T absent) const { return data ? data[i * stride] : absent; }
};

template <class Real>
struct RowCall {
  std::int64_t rows = 0;
  int columns = 0;                ///< of this rank's shard
  std::int64_t first_column = 0;  ///< of the shard in the vocabulary
  std::int64_t vocab = 0;

  Stream logits;
  Stream teacher;
  GradientStream gradient;

  PerRow<std::int32_t> labels32;  ///< at most one of the two is set
  PerRow<std::int64_t> labels64;
  std::int64_t ignore_index = -100;
  PerRow<std::uint8_t> mask;  ///< 0: the row does not count
  PerRow<Real> row_weights;

  PerRow<Real> upstream[2];  ///< dL/dloss of each output
  Real upstream_scalar[2] = {Real(1), Real(1)};
  Real loss_factor = Real(1);      ///< multiplies losses: T^2 if asked
  Real gradient_factor = Real(1);  ///< multiplies gradients: T^2 / divisor

  Real* losses[2] = {nullptr, nullptr};
  std::int64_t losses_stride[2] = {1, 1};
  /// Row statistics kept for a later backward: [rows][sizeof(Statistics) / sizeof(Real)]; null: not kept.
  Real* statistics = nullptr;

  KOKKOS_INLINE_FUNCTION bool has_labels() const { return labels32.data || labels64.data; }
};

enum class RowStatus : int {
  counts,   ///< an ordinary row
  masked,   ///< masked out or ignored: loss 0, gradient 0, nothing of it looked at
  poisoned  ///< its label lies outside the vocabulary: loss and gradient NaN
};

template <class Real>
struct RowFacts {
  RowStatus status;
  Real loss_weight;  ///< multiplies the row's losses
  loss::Row<Real> row;
};

/// What the call says of row i. Reads the mask first, and nothing else of a masked row.
template <class Real>
KOKKOS_INLINE_FUNCTION RowFacts<Real> row_facts(const RowCall<Real>& call, std::int64_t i) {
  RowFacts<Real> facts{RowStatus::counts, call.loss_factor, {-1, {Real(0), Real(0)}}};
  if (call.mask.at(i, 1) == 0) {
    facts.status = RowStatus::masked;
    return facts;
  }
  if (call.has_labels()) {
    const std::int64_t label = call.labels64.data ? call.labels64.at(i, 0) : call.labels32.at(i, 0);
    if (label == call.ignore_index) {
      facts.status = RowStatus::masked;
      return facts;
    }
    if (label < 0 || label >= call.vocab) facts.status = RowStatus::poisoned;
    const std::int64_t local = label - call.first_column;
    if (facts.status == RowStatus::counts && local >= 0 && local < call.columns) {
      facts.row.label = static_cast<int>(local);
    }
  }
  const Real weight = call.row_weights.at(i, Real(1));
  facts.loss_weight *= weight;
  for (int output = 0; output < 2; ++output) {
    facts.row.upstream[output] =
        call.upstream[output].at(i, call.upstream_scalar[output]) * weight * call.gradient_factor;
  }
  return facts;
}

/// Losses of row i from its statistics (already NaN where the row is poisoned); 0 for a masked row.
template <class Loss, class Real = typename Loss::Real>
KOKKOS_INLINE_FUNCTION void store_losses(const Loss& loss, const RowCall<Real>& call, std::int64_t i,
                                         const RowFacts<Real>& facts, const typename Loss::Statistics& statistics) {
  for (int output = 0; output < Loss::outputs; ++output) {
    if (!call.losses[output]) continue;
    const bool masked = facts.status == RowStatus::masked;
    const Real value = masked ? Real(0) : loss.value(statistics, output) * facts.loss_weight;
    call.losses[output][i * call.losses_stride[output]] = value;
  }
}

template <class Loss, class Real = typename Loss::Real>
KOKKOS_INLINE_FUNCTION void store_statistics(const RowCall<Real>& call, std::int64_t i,
                                             const typename Loss::Statistics& statistics) {
  if (!call.statistics) return;
  constexpr int count = sizeof(typename Loss::Statistics) / sizeof(Real);
  const Real* values = reinterpret_cast<const Real*>(&statistics);
  for (int k = 0; k < count; ++k) call.statistics[i * count + k] = values[k];
}

template <class Loss, class Real = typename Loss::Real>
KOKKOS_INLINE_FUNCTION typename Loss::Statistics load_statistics(const RowCall<Real>& call, std::int64_t i) {
  constexpr int count = sizeof(typename Loss::Statistics) / sizeof(Real);
  typename Loss::Statistics statistics;
  Real* values = reinterpret_cast<Real*>(&statistics);
  for (int k = 0; k < count; ++k) values[k] = call.statistics[i * count + k];
  return statistics;
}

}  // namespace vocabloss::Impl

#endif
