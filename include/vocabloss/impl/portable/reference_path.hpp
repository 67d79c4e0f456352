// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_REFERENCE_PATH_HPP
#define VOCABLOSS_IMPL_PORTABLE_REFERENCE_PATH_HPP

/// \file
/// \brief Path `reference`: the textbook formulas, row by row, in double, on the host.

#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/loss/reference.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>

#include <string>

namespace vocabloss::Impl {

inline double read_value(DataType type, const void* data, std::int64_t index) {
  switch (type) {
    case DataType::bf16:
      return widen(static_cast<const bfloat16*>(data)[index]);
    case DataType::fp16:
      return widen(static_cast<const float16*>(data)[index]);
    case DataType::fp32:
      return static_cast<const float*>(data)[index];
    case DataType::fp64:
      break;
  }
  return static_cast<const double*>(data)[index];
}

inline void write_value(DataType type, void* data, std::int64_t index, double value) {
  switch (type) {
    case DataType::bf16:
      static_cast<bfloat16*>(data)[index] = narrow<bfloat16>(static_cast<float>(value));
      return;
    case DataType::fp16:
      static_cast<float16*>(data)[index] = narrow<float16>(static_cast<float>(value));
      return;
    case DataType::fp32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      return;
    case DataType::fp64:
      static_cast<double*>(data)[index] = value;
      return;
  }
}

template <class Loss, class Logit, class Exec>
struct ReferencePath {
  using Real = typename Loss::Real;
  static constexpr bool on_host =
      Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Exec::memory_space>::accessible;

  static std::string refusal(const Problem&, const LaunchPlan&) {
    return on_host ? "" : "path reference runs on the host: use a host execution space and host memory";
  }
  static LaunchPlan choose(const Problem&, const PlanRequest&) {
    LaunchPlan plan;
    plan.path = Path::reference;
    return plan;
  }
  static std::size_t workspace_bytes(const Problem&, const LaunchPlan&) { return 0; }

  /// A backward evaluates the row anew: the oracle trusts no saved statistics.
  static void run(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, const LaunchPlan&, void*) {
    if constexpr (on_host) {
      Kokkos::Profiling::ScopedRegion region("VocabLoss::reference::" + std::string(name_of(pass)));
      exec.fence("VocabLoss::reference");
      for (std::int64_t i = 0; i < call.rows; ++i) one_row(loss, call, pass, i);
    }
  }

 private:
  static void one_row(const Loss& loss, const RowCall<Real>& call, Pass pass, std::int64_t i) {
    const RowFacts<Real> facts = row_facts(call, i);
    reference::RowOutput output = evaluate(loss, call, facts, i);
    if (pass != Pass::backward) store(call, facts, i, output);
    if (pass == Pass::forward || !call.gradient.data) return;
    if (facts.status == RowStatus::masked && call.gradient.accumulate) return;
    for (int j = 0; j < call.columns; ++j) {
      const std::int64_t index = i * call.gradient.stride + j;
      const double before = call.gradient.accumulate ? read_value(call.gradient.type, call.gradient.data, index) : 0.0;
      write_value(call.gradient.type, call.gradient.data, index, before + output.gradient[j]);
    }
  }

  static reference::RowOutput evaluate(const Loss& loss, const RowCall<Real>& call, const RowFacts<Real>& facts,
                                       std::int64_t i) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    if (facts.status == RowStatus::masked) return {{0, 0}, std::vector<double>(call.columns, 0.0)};
    if (facts.status == RowStatus::poisoned) return {{nan, nan}, std::vector<double>(call.columns, nan)};
    reference::RowInput row;
    for (int j = 0; j < call.columns; ++j) {
      row.x.push_back(read_value(call.logits.type, call.logits.data, i * call.logits.stride + j));
      if (Loss::streams == 2) {
        row.t.push_back(read_value(call.teacher.type, call.teacher.data, i * call.teacher.stride + j));
      }
    }
    row.label = facts.row.label;
    for (int k = 0; k < 2; ++k) row.upstream[k] = facts.row.upstream[k];
    return reference::evaluate(loss, row);
  }

  static void store(const RowCall<Real>& call, const RowFacts<Real>& facts, std::int64_t i,
                    const reference::RowOutput& output) {
    for (int k = 0; k < Loss::outputs; ++k) {
      if (!call.losses[k]) continue;
      const bool masked = facts.status == RowStatus::masked;
      call.losses[k][i * call.losses_stride[k]] =
          masked ? Real(0) : static_cast<Real>(output.losses[k] * static_cast<double>(facts.loss_weight));
    }
  }
};

}  // namespace vocabloss::Impl

#endif
