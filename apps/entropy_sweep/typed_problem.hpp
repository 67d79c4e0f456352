// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_TYPED_PROBLEM_HPP
#define ENTROPY_SWEEP_TYPED_PROBLEM_HPP

/// \file
/// A problem with its value type and its communicator: from a case to a Batch and a Plan, a first call for the values,
/// then the timed ones. Between ranks each step is either local (and agreed on afterwards) or made by all together.

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include <vocabloss/tuning/tune.hpp>
#include <vocabloss/vocabloss.hpp>

#include "allocation_peak.hpp"
#include "captured_call.hpp"
#include "case_status.hpp"
#include "problem.hpp"
#include "streams.hpp"
#include "timing.hpp"

namespace entropy_sweep {

vocabloss::Path library_path(Path path);
vocabloss::Pass library_pass(Pass pass);
/// Nothing: the case has no exchange, and the library's default is not looked at.
vocabloss::Exchange library_exchange(std::optional<Exchange> exchange);

template <class Logit, class Communicator>
class TypedProblem : public Problem {
 public:
  using Exec = Kokkos::DefaultExecutionSpace;
  using Real = vocabloss::Accumulate<Logit>;
  using Batch = vocabloss::Batch<Logit, Exec>;

  TypedProblem(const ProblemSpec& spec, const Sharing& sharing)
      : spec_(spec), sharing_(sharing), streams_(exec_, spec) {}

  Measured run(const Case& one, const Measurement& measurement) override {
    namespace loss = vocabloss::loss;
    switch (one.loss) {
      case Loss::cross_entropy:
        return run_loss<loss::CrossEntropy>(one, measurement);
      case Loss::soft_cross_entropy:
        return run_loss<loss::SoftCrossEntropy>(one, measurement);
      case Loss::forward_kl:
        return run_loss<loss::ForwardKl>(one, measurement);
      case Loss::reverse_kl:
        return run_loss<loss::ReverseKl>(one, measurement);
      case Loss::jsd:
        return run_loss<loss::Jsd>(one, measurement);
      case Loss::z_loss:
        return run_loss<loss::ZLoss>(one, measurement);
      case Loss::entropy:
        return run_loss<loss::Entropy>(one, measurement);
      case Loss::log_prob:
        return run_loss<loss::LogProb>(one, measurement);
      case Loss::log_prob_entropy:
        return run_loss<loss::LogProbEntropy>(one, measurement);
    }
    throw std::logic_error("a loss without a case");
  }

  std::vector<double> logits_row(std::int64_t i) override { return streams_.row(streams_.logits(), i); }

  std::vector<double> teacher_row(const Case& one, std::int64_t i) override {
    if (!needs_teacher(one.loss)) return {};
    return has_float_teacher(one) ? streams_.row(streams_.float_teacher(), i) : streams_.row(streams_.teacher(), i);
  }

 private:
  using Losses = typename Streams<Logit, Exec>::template Vector<Real>;

  bool has_float_teacher(const Case& one) const { return one.teacher && *one.teacher != one.type; }

  Batch batch_of(const Case& one, const Measurement& measurement, const std::vector<Losses>& losses) {
    Batch batch;
    batch.logits(streams_.logits()).partition(spec_.partition);
    if (needs_teacher(one.loss)) {
      if (has_float_teacher(one)) {
        batch.teacher(streams_.float_teacher());
      } else {
        batch.teacher(streams_.teacher());
      }
    }
    // Labels of a file count for every loss, since they may say that a row is ignored.
    const bool labels_in_file = spec_.input != nullptr && spec_.input->has_labels();
    if (needs_labels(one.loss) || labels_in_file) batch.labels(streams_.labels(), measurement.ignore_index);
    if (spec_.input != nullptr && !spec_.input->mask().empty()) batch.mask(streams_.mask());
    for (std::size_t k = 0; k < losses.size(); ++k) batch.losses(losses[k], static_cast<int>(k));
    if (one.pass != Pass::forward) batch.gradient(one.in_place ? streams_.logits() : streams_.gradient());
    return batch;
  }

  template <template <class> class LossOf>
  Measured run_loss(const Case& one, const Measurement& measurement) {
    using Plan = vocabloss::Plan<LossOf, Logit, Exec, Communicator>;
    const Ranks& ranks = *sharing_.ranks;
    std::vector<Losses> losses;
    Batch batch;
    in_step(ranks, [&] {
      for (int k = 0; k < Plan::Algebra::outputs; ++k) losses.push_back(Losses("entropy_sweep::losses", spec_.rows));
      batch = batch_of(one, measurement, losses);
      if (one.in_place) streams_.untouched();
      spoil(one, losses);
    });

    Measured measured;
    const vocabloss::PlanRequest request = tunes(one, measurement)
                                               ? tuned_request<LossOf>(one, measurement, batch, measured)
                                               : request_of(one, measurement);
    const AllocationPeak peak;
    const Plan plan(exec_, sharing_.communicators->template get<Communicator>(), batch, options_of(measurement),
                    request);
    measured.plan = plan.launch().describe();
    if (plan.launch().path == vocabloss::Path::team) measured.block_cap = plan.launch().block_cap;

    const vocabloss::Pass pass = library_pass(one.pass);
    const auto eager = [&] { plan.run(exec_, batch, pass); };
    std::optional<CapturedCall<Exec>> graph;
    const auto call = [&] { graph ? graph->launch() : eager(); };
    // The first call is the one whose values count; it warms up as well.
    exchanging([&] {
      if (one.pass == Pass::backward) plan.forward(exec_, batch);
      if (measurement.graph) {
        eager();
        plan.wait(exec_);
        graph.emplace(exec_, eager);
        spoil(one, one.pass == Pass::backward ? std::vector<Losses>() : losses);
      }
      call();
      plan.wait(exec_);
    });
    measured.peak_extra_bytes = peak.bytes();
    in_step(ranks, [&] { collect(one, measurement, losses, measured); });

    const auto prepare = [&] {
      if (one.in_place) streams_.restore_logits();
    };
    vocabloss::Impl::RowCall<Real> moved = batch.row_call();
    if (one.pass == Pass::forward) moved.gradient = {};
    const auto streams = vocabloss::Impl::stream_problem(moved, Plan::Algebra::streams);
    all_or_none(ranks, [&] {
      const Timings timings =
          time_in_turns(ranks, exec_, call, prepare, streams, measurement.repeat, measurement.back_to_back);
      measured.ms = timings.ours;
      measured.share_of_stream = timings.share_of_stream;
    });
    if (one.in_place) {
      streams_.restore_logits();
      exec_.fence("entropy_sweep::restored");
    }
    return measured;
  }

  static bool tunes(const Case& one, const Measurement& measurement) {
    return measurement.tune && one.path == Path::automatic;
  }

  /// Of the record, or measured now and added to it. Collective.
  template <template <class> class LossOf>
  vocabloss::PlanRequest tuned_request(const Case& one, const Measurement& measurement, const Batch& batch,
                                       Measured& measured) {
    vocabloss::TuneOptions how{.record = measurement.record};
    if (one.exchange) how.exchange = library_exchange(one.exchange);
    vocabloss::Tuning tuning;
    exchanging([&] {
      tuning = vocabloss::tune<LossOf>(exec_, sharing_.communicators->template get<Communicator>(), batch,
                                       library_pass(one.pass), options_of(measurement), how);
    });
    for (const vocabloss::TunedCandidate& tried : tuning.candidates) {
      std::string line = tried.plan + ":";
      if (tried.time) line += " " + std::to_string(tried.time->median_ms) + " ms";
      if (!tried.reason.empty()) line += " " + tried.reason;
      measured.tuned.push_back(line);
    }
    return tuning.request;
  }

  static vocabloss::LossOptions options_of(const Measurement& measurement) {
    return {.logit_scale = measurement.logit_scale,
            .teacher_scale = measurement.teacher_scale,
            .temperature = measurement.temperature,
            .jsd_beta = measurement.jsd_beta};
  }
  static vocabloss::PlanRequest request_of(const Case& one, const Measurement& measurement) {
    const std::int64_t cap = std::min<std::int64_t>(one.block_cap.value_or(0), std::numeric_limits<int>::max());
    return {.path = library_path(one.path),
            .block_cap = static_cast<int>(cap),
            .exchange = library_exchange(one.exchange),
            .memory_limit = static_cast<std::size_t>(measurement.memory_limit),
            .variant = one.variant};
  }

  /// NaN wherever a call is to write, so that an element nobody writes is seen; in place, the logits anew.
  void spoil(const Case& one, const std::vector<Losses>& losses) {
    for (const Losses& view : losses) streams_.fill_with_nan(view);
    if (one.pass != Pass::forward && !one.in_place) streams_.fill_with_nan(streams_.gradient());
    if (one.in_place) streams_.restore_logits();
    exec_.fence("entropy_sweep::ready");
  }

  /// Calls of the plan. What the library refuses, it refuses on all ranks. Of other errors over MPI the other ranks
  /// know nothing and would wait for ever; over NCCL their time limit ends the call.
  template <class Action>
  void exchanging(Action&& action) {
    const bool ends_at_time_limit = Communicator::is_asynchronous;
    try {
      action();
    } catch (const vocabloss::PathRefused&) {
      throw;
    } catch (const vocabloss::InvalidArgument&) {
      throw;
    } catch (const std::exception& error) {
      if (!ends_at_time_limit && sharing_.ranks->size() > 1) sharing_.ranks->abort(exit_failed, error.what());
      throw;
    }
  }

  void collect(const Case& one, const Measurement& measurement, const std::vector<Losses>& losses, Measured& measured) {
    if (measurement.want_losses) {
      for (const Losses& view : losses) {
        const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, view);
        measured.losses.emplace_back(host.data(), host.data() + host.extent(0));
      }
    }
    if (one.pass == Pass::forward) return;
    const auto& gradient = one.in_place ? streams_.logits() : streams_.gradient();
    for (const std::int64_t i : measurement.gradient_rows) measured.gradients.push_back(streams_.row(gradient, i));
  }

  Exec exec_{};
  ProblemSpec spec_;
  Sharing sharing_;
  Streams<Logit, Exec> streams_;
};

template <class Logit, class Communicator>
std::unique_ptr<Problem> make_typed_problem(const ProblemSpec& spec, const Sharing& sharing) {
  return std::make_unique<TypedProblem<Logit, Communicator>>(spec, sharing);
}

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_TYPED_PROBLEM_HPP
