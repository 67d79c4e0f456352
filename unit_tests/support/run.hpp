// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_RUN_HPP
#define VOCABLOSS_TEST_RUN_HPP

/// \file
/// From a Call to Views, a Batch, a Plan and back. Included where plans are compiled (run_loss.cpp.in).

#include <vocabloss/vocabloss.hpp>

#include <memory>
#include <optional>

#include "support/call.hpp"
#include "support/storage.hpp"

namespace test {

/// The Views of one call, which its Batch points into.
template <class Logit>
class CallStorage {
 public:
  using Real = vocabloss::Accumulate<Logit>;

  CallStorage(const Call& call, bool has_teacher)
      : call_(call), stride_(call.columns + call.padding), x_(call.rows, call.columns, stride_, call.offset) {
    x_.write(call.x);
    if (has_teacher || !call.t.empty()) add_stream(teacher_, teacher_float_, call.teacher, call.t);
    if (!call.in_place) add_stream(gradient_, gradient_float_, call.gradient, call.gradient_before);
    for (int k = 0; k < 2; ++k) {
      losses_[k].emplace(call.rows, 1, call.vector_stride, 0);
      if (!call.upstream[k].empty()) {
        upstream_[k].emplace(call.upstream[k].size(), 1, call.vector_stride, 0);
        upstream_[k]->write(call.upstream[k]);
      }
    }
    const std::vector<double> labels(call.labels.begin(), call.labels.end());
    if (call.narrow_labels) {
      add_vector(labels32_, labels);
    } else {
      add_vector(labels64_, labels);
    }
    add_vector(mask_, std::vector<double>(call.mask.begin(), call.mask.end()));
    add_vector(weights_, call.row_weights);
  }

  vocabloss::Batch<Logit, Exec> batch(int outputs) const {
    vocabloss::Batch<Logit, Exec> batch;
    batch.logits(x_.matrix()).divisor(call_.divisor).summary(summary_);
    if (teacher_) batch.teacher(teacher_->matrix());
    if (teacher_float_) batch.teacher(teacher_float_->matrix());
    if (labels64_) batch.labels(labels64_->vector(), call_.ignore_index);
    if (labels32_) batch.labels(labels32_->vector(), call_.ignore_index);
    if (mask_) batch.mask(mask_->vector());
    if (weights_) batch.row_weights(weights_->vector());
    for (int k = 0; k < outputs; ++k) {
      batch.losses(losses_[k]->vector(), k).upstream(call_.upstream_scalar[k], k);
      if (!upstream_[k]) continue;
      batch.upstream(call_.broadcast_upstream ? upstream_[k]->broadcast(call_.rows) : upstream_[k]->vector(), k);
    }
    if (call_.sequence != Sequence::forward) set_gradient(batch);
    return batch;
  }

  Outputs outputs(int count) {
    Outputs result;
    for (int k = 0; k < count; ++k) {
      result.losses[k] = losses_[k]->read();
      result.surroundings_intact &= losses_[k]->surroundings_intact();
    }
    const std::vector<double> x = x_.read();
    result.surroundings_intact &= call_.in_place ? x_.surroundings_intact() : x_.unchanged();
    if (call_.in_place) result.gradient = x;
    if (gradient_) result.gradient = gradient_->read();
    if (gradient_float_) result.gradient = gradient_float_->read();
    if (gradient_) result.surroundings_intact &= gradient_->surroundings_intact();
    if (gradient_float_) result.surroundings_intact &= gradient_float_->surroundings_intact();
    const auto sums = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), summary_)();
    for (int k = 0; k < 2; ++k) result.sum[k] = sums.sum[k];
    result.valid_rows = sums.valid_rows;
    result.invalid_labels = sums.invalid_labels;
    return result;
  }

 private:
  template <class Own>
  void add_stream(Own& own, std::optional<Stored<float>>& wide, DataType type, const std::vector<double>& values) {
    const auto make = [&](auto& stored) {
      stored.emplace(call_.rows, call_.columns, stride_, call_.offset);
      if (!values.empty()) stored->write(values);
    };
    if (type == vocabloss::Precision<Logit>::type) {
      make(own);
    } else {
      make(wide);
    }
  }
  template <class T>
  void add_vector(std::optional<Stored<T>>& stored, const std::vector<double>& values) {
    if (values.empty()) return;
    stored.emplace(call_.rows, 1, call_.vector_stride, 0);
    stored->write(values);
  }
  void set_gradient(vocabloss::Batch<Logit, Exec>& batch) const {
    const auto set = [&](const auto& view) {
      if (call_.gradient_before.empty()) {
        batch.gradient(view);
      } else {
        batch.accumulate_gradient(view);
      }
    };
    if (call_.in_place) set(x_.matrix());
    if (gradient_) set(gradient_->matrix());
    if (gradient_float_) set(gradient_float_->matrix());
  }

  const Call& call_;
  std::int64_t stride_;
  Stored<Logit> x_;
  std::optional<Stored<Logit>> teacher_, gradient_;
  std::optional<Stored<float>> teacher_float_, gradient_float_;
  std::optional<Stored<std::int64_t>> labels64_;
  std::optional<Stored<std::int32_t>> labels32_;
  std::optional<Stored<std::uint8_t>> mask_;
  std::optional<Stored<Real>> weights_, upstream_[2], losses_[2];
  Kokkos::View<vocabloss::Summary<Real>, Memory> summary_{"test"};
};

// Compiled once, in run_storage.cpp.
extern template class CallStorage<vocabloss::bfloat16>;
extern template class CallStorage<vocabloss::float16>;
extern template class CallStorage<float>;
extern template class CallStorage<double>;

template <class Tag, class Logit>
Outputs run_stored_as(const Call& call) {
  using Plan = vocabloss::Plan<Tag::template Loss, Logit, Exec>;
  using Real = typename Plan::Real;
  constexpr int outputs = Plan::Algebra::outputs;
  const Exec exec;
  CallStorage<Logit> storage(call, Plan::Algebra::streams == 2);
  auto batch = storage.batch(outputs);
  std::unique_ptr<Plan> plan;
  try {
    plan = std::make_unique<Plan>(exec, batch, call.options,
                                  vocabloss::PlanRequest{.path = call.path, .block_cap = call.block_cap});
  } catch (const vocabloss::PathRefused& refused) {
    Outputs result;
    result.refused = refused.what();
    return result;
  }
  Kokkos::View<Real**, Kokkos::LayoutRight, Memory> statistics("test", call.rows, Plan::statistics_per_row);
  if (call.sequence == Sequence::forward_then_own_statistics) batch.statistics(statistics);
  switch (call.sequence) {
    case Sequence::forward:
      plan->forward(exec, batch);
      break;
    case Sequence::forward_backward_twice:
      plan->forward_backward(exec, batch);
      [[fallthrough]];
    case Sequence::forward_backward:
      plan->forward_backward(exec, batch);
      break;
    case Sequence::forward_then_backward:
    case Sequence::forward_then_own_statistics:
      plan->forward(exec, batch);
      plan->backward(exec, batch);
      break;
  }
  exec.fence();
  Outputs result = storage.outputs(outputs);
  if (call.sequence == Sequence::forward) result.gradient.clear();
  result.launch = plan->launch().describe();
  return result;
}

template <class Tag>
Outputs run_loss(const Call& call) {
  switch (call.logits) {
    case DataType::bf16:
      return run_stored_as<Tag, vocabloss::bfloat16>(call);
    case DataType::fp16:
      return run_stored_as<Tag, vocabloss::float16>(call);
    case DataType::fp32:
      return run_stored_as<Tag, float>(call);
    case DataType::fp64:
      break;
  }
  return run_stored_as<Tag, double>(call);
}

}  // namespace test

#endif
