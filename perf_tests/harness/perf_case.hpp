// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef PERF_TESTS_HARNESS_PERF_CASE_HPP
#define PERF_TESTS_HARNESS_PERF_CASE_HPP

/// \file
/// \brief One thing to time: a loss, a type, a shape and a path, with its buffers, through the public call only.

#include "check.hpp"
#include "inputs.hpp"

#include <vocabloss/impl/stream/stream_problem.hpp>
#include <vocabloss/loss/reference.hpp>
#include <vocabloss/plan.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace perf {

using Exec = Kokkos::DefaultExecutionSpace;

inline constexpr bool on_device =
    !Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Exec::memory_space>::accessible;

struct CaseSpec {
  std::int64_t rows = 16;
  std::int64_t columns = 4096;
  vocabloss::PlanRequest request;
};

class PerfCase {
 public:
  virtual ~PerfCase() = default;
  /// Runs once over outputs filled with NaN, then compares.
  virtual Verdict check() = 0;
  /// Enqueues the public call.
  virtual void call() const = 0;
  virtual vocabloss::Impl::StreamProblem streams() const = 0;
  virtual std::string plan() const = 0;
};

using MakeCase = std::function<std::unique_ptr<PerfCase>()>;

template <template <class> class Loss, class Logit>
class LossCase : public PerfCase {
  using Real = vocabloss::Accumulate<Logit>;
  using Plan = vocabloss::Plan<Loss, Logit, Exec>;
  using Algebra = typename Plan::Algebra;
  using Batch = vocabloss::Batch<Logit, Exec>;

 public:
  explicit LossCase(const CaseSpec& spec)
      : logits_(unset("logits"), spec.rows, spec.columns),
        gradient_(unset("gradient"), spec.rows, spec.columns),
        losses_(unset("losses"), Algebra::outputs, spec.rows),
        labels_("VocabLoss::perf::labels", spec.rows),
        batch_(make_batch(spec)),
        plan_(exec_, batch_, {}, spec.request) {}

  Verdict check() override {
    fill_with_nan(exec_, gradient_);
    fill_with_nan(exec_, losses_);
    call();
    exec_.fence();
    Verdict verdict;
    const auto losses = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), losses_);
    for (const std::int64_t i : rows_to_check(logits_.extent(0), logits_.extent(1))) check_row(verdict, losses, i);
    const std::int64_t unfinished = count_not_finite(exec_, gradient_) + count_not_finite(exec_, losses_);
    if (unfinished > 0 && verdict.is_correct()) {
      verdict.fault = std::to_string(unfinished) + " outputs are not finite, though all inputs are";
    }
    return verdict;
  }

  void call() const override { plan_.forward_backward(exec_, batch_); }

  vocabloss::Impl::StreamProblem streams() const override {
    return vocabloss::Impl::stream_problem(batch_.row_call(), Algebra::streams);
  }

  std::string plan() const override { return plan_.launch().describe(); }

 private:
  static auto unset(const char* name) {
    return Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("VocabLoss::perf::") + name);
  }

  Batch make_batch(const CaseSpec& spec) {
    fill_logits(exec_, logits_, 1);
    const auto labels = Kokkos::create_mirror_view(labels_);
    for (std::int64_t i = 0; i < spec.rows; ++i) labels(i) = static_cast<std::int64_t>(hash_of(i) % spec.columns);
    Kokkos::deep_copy(labels_, labels);
    Batch batch;
    batch.logits(logits_).gradient(gradient_).labels(labels_);
    for (int output = 0; output < Algebra::outputs; ++output) {
      batch.losses(Kokkos::subview(losses_, output, Kokkos::ALL), output);
    }
    if constexpr (Algebra::streams == 2) {
      teacher_ = Matrix<Exec, Logit>(unset("teacher"), spec.rows, spec.columns);
      if (Algebra::teacher_is_logits) {
        fill_logits(exec_, teacher_, 2);
      } else {
        fill_probabilities(exec_, teacher_, 2);
      }
      batch.teacher(teacher_);
    }
    return batch;
  }

  static std::vector<Logit> row_of(const Matrix<Exec, Logit>& matrix, std::int64_t i) {
    std::vector<Logit> row(matrix.extent(1));
    const Kokkos::View<Logit*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(row.data(), row.size());
    Kokkos::deep_copy(host, Kokkos::subview(matrix, i, Kokkos::ALL));
    return row;
  }

  static std::vector<double> widened(const std::vector<Logit>& row) {
    std::vector<double> result;
    for (const Logit value : row) result.push_back(static_cast<double>(vocabloss::widen(value)));
    return result;
  }

  template <class Losses>
  void check_row(Verdict& verdict, const Losses& losses, std::int64_t i) const {
    vocabloss::reference::RowInput input;
    input.x = widened(row_of(logits_, i));
    if constexpr (Algebra::streams == 2) input.t = widened(row_of(teacher_, i));
    input.label = static_cast<int>(hash_of(i) % logits_.extent(1));
    const auto expected = vocabloss::reference::evaluate(Loss<double>(typename Algebra::Options{}), input);
    const Tolerance tolerance = Tolerance::of(vocabloss::Precision<Logit>::type);
    for (int output = 0; output < Algebra::outputs; ++output) {
      check_loss(verdict, i, losses(output, i), expected.losses[output], tolerance.loss);
    }
    check_gradient(verdict, i, row_of(gradient_, i), expected, tolerance.gradient);
  }

  Exec exec_;
  Matrix<Exec, Logit> logits_, teacher_, gradient_;
  Matrix<Exec, Real> losses_;
  Kokkos::View<std::int64_t*, typename Exec::memory_space> labels_;
  Batch batch_;
  Plan plan_;
};

/// Allocates only when the case is run.
template <template <class> class Loss, class Logit>
MakeCase loss_case(const CaseSpec& spec) {
  return [spec] { return std::make_unique<LossCase<Loss, Logit>>(spec); };
}

}  // namespace perf

#endif
