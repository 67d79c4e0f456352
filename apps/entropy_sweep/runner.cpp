// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>
#include <vocabloss/error.hpp>

#include "case_status.hpp"
#include "check.hpp"
#include "memory.hpp"

namespace entropy_sweep {
Runner::Runner(const Options& options, const Sharing& sharing, const InputData* input, Dump* dump,
               vocabloss::TuningRecord* record)
    : options_(options), sharing_(sharing), ranks_(*sharing.ranks), input_(input), dump_(dump) {
  measurement_.repeat = options.repeat;
  measurement_.back_to_back = options.back_to_back;
  measurement_.graph = options.graph;
  measurement_.memory_limit = options.memory_limit;
  measurement_.tune = !options.tune.empty();
  measurement_.record = record;
  measurement_.logit_scale = options.logit_scale;
  measurement_.teacher_scale = options.teacher_scale;
  measurement_.temperature = options.temperature;
  measurement_.jsd_beta = options.jsd_beta;
  measurement_.ignore_index = options.ignore_index;
}

Result Runner::run(const Case& one) {
  Result result;
  result.point = one;
  result.ranks = ranks_.size();
  result.columns = columns_of(one, 0);
  if (input_ != nullptr) {
    result.input = input_->name();
  } else if (options_.data != Data::normal) {
    result.input = fmt::format("synthetic:{}", to_name(options_.data));
  }
  std::string status = "ok";
  try {
    run_or_throw(one, result);
  } catch (...) {
    status = status_of_current_exception();
  }
  status = common_status(ranks_.all_texts(status));
  if (status != "ok") {
    result.status = status;
    // An interrupted case may have left its gradient over the logits; a failed allocation wants the memory back.
    problem_.reset();
    oracle_loss_.reset();
  }
  return result;
}

std::int64_t Runner::columns_of(const Case& one, int rank) const {
  return vocabloss::VocabPartition::even(one.vocab, ranks_.size(), rank).columns;
}

void Runner::run_or_throw(const Case& one, Result& result) {
  in_step(ranks_, [&] {
    expect_possible(one);
    use_problem_of(one);
    expect_memory(one);
  });
  in_step(ranks_, [&] { sharing_.communicators->start(); });

  const bool has_gradient = one.pass != Pass::forward;
  const std::vector<std::int64_t> checked =
      options_.check ? rows_to_check(one.rows, one.vocab) : std::vector<std::int64_t>();
  const bool is_dumped = !options_.dump.empty();
  measurement_.want_losses = options_.check || is_dumped;
  measurement_.gradient_rows.clear();
  if (has_gradient) measurement_.gradient_rows = options_.dump_grad ? all_rows() : checked;

  Measured measured = one.path == Path::reference ? run_reference(one, checked) : problem_->run(one, measurement_);
  if (tunes(one)) in_step(ranks_, [&] { keep_choice(one, measured); });
  result.plan = measured.plan;
  result.block_cap = measured.block_cap;
  result.ms = measured.ms;
  result.share_of_stream = measured.share_of_stream;
  all_or_none(ranks_, [&] {
    if (measured.peak_extra_bytes) {
      result.peak_extra_bytes = static_cast<std::int64_t>(ranks_.largest(double(*measured.peak_extra_bytes)));
    }
    for (std::vector<double>& row : measured.gradients) row = ranks_.gather_on_first(row);
    if (options_.check) check(one, measured, result);
    if (dump_ != nullptr) add_to_dump(one, measured);
  });
}

/// The record is written after each case, so that an interrupted run keeps what it has measured.
void Runner::keep_choice(const Case& one, const Measured& measured) const {
  if (measured.tuned.empty() || measurement_.record == nullptr) return;
  write_record(*measurement_.record, options_.tune);
  if (options_.quiet) return;
  fmt::print(stderr, "entropy_sweep: tuned {}: {}\n", describe(one), measured.plan);
  for (const std::string& line : measured.tuned) fmt::print(stderr, "  {}\n", line);
}

void Runner::expect_possible(const Case& one) const {
  const std::int64_t columns = columns_of(one, 0);
  if (columns > std::numeric_limits<int>::max()) {
    throw vocabloss::PathRefused(fmt::format("{} columns on one rank, more than {}; split the vocabulary over {} ranks",
                                             columns, std::numeric_limits<int>::max(),
                                             ranks_.size() > 1 ? "more" : "several"));
  }
  if (options_.graph && one.path == Path::reference) {
    throw vocabloss::PathRefused(
        "--graph captures CUDA work, and path reference runs on the host: leave one of them out");
  }
}

void Runner::use_problem_of(const Case& one) {
  const ProblemSpec spec{.rows = one.rows,
                         .vocab = one.vocab,
                         .type = one.type,
                         .seed = options_.seed,
                         .data = options_.data,
                         .input = input_,
                         .partition = vocabloss::VocabPartition::even(one.vocab, ranks_.size(), ranks_.rank())};
  if (problem_ != nullptr && spec == spec_) return;
  problem_.reset();  // before the next one takes memory
  oracle_loss_.reset();
  oracle_rows_.clear();
  spec_ = spec;
  problem_ = make_problem(spec, one.comm, sharing_);
}

void Runner::expect_memory(const Case& one) const {
  if (!data_on_host()) return;            // the device says itself when it is full
  std::int64_t each = size_of(one.type);  // logits
  if (one.pass != Pass::forward && one.path != Path::reference) each += size_of(one.type);  // gradient, or a copy
  if (needs_teacher(one.loss)) each += size_of(one.teacher.value_or(one.type));
  if (tunes(one) && one.pass != Pass::forward) each += size_of(one.type);  // a private copy of the gradient
  // All ranks of this host share its memory; a dump comes together on the first one.
  const std::int64_t columns = std::min(one.vocab, columns_of(one, 0) * ranks_.local_size());
  const std::int64_t needed = one.rows * (columns * each + (options_.dump_grad ? one.vocab * (8 + 4) : 0));
  // What cases before this one allocated is counted twice: a little too careful near the limit.
  const std::int64_t available = available_host_memory();
  if (needed > available) {
    throw OutOfMemory(fmt::format("{} bytes are needed, {} are available; choose fewer rows or a smaller vocabulary",
                                  needed, available));
  }
}

std::vector<std::int64_t> Runner::all_rows() const {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(spec_.rows));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

/// The oracle as a path of its own: all rows, timed once, since it is there to be right and not to be fast.
Measured Runner::run_reference(const Case& one, const std::vector<std::int64_t>& checked) {
  if (one.rows > 0) {  // makes the data, which is not to be timed
    problem_->logits_row(0);
    problem_->teacher_row(one, 0);
  }
  const auto begin = std::chrono::steady_clock::now();
  std::vector<OracleRow> rows =
      evaluate_rows(ranks_, *problem_, spec_, one, measurement_, all_rows(), measurement_.gradient_rows);
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();

  Measured measured;
  measured.plan = "reference";
  measured.ms = Milliseconds{ms, ms, ms};
  measured.losses.resize(static_cast<std::size_t>(outputs_of(one.loss)));
  for (const OracleRow& row : rows) {
    for (std::size_t k = 0; k < measured.losses.size(); ++k) measured.losses[k].push_back(row.losses[k]);
  }
  for (const std::int64_t i : measurement_.gradient_rows) {
    std::vector<double> gradient = rows[static_cast<std::size_t>(i)].gradient;
    for (double& value : gradient) value = rounded_to(one.type, value);
    measured.gradients.push_back(std::move(gradient));
  }
  if (!checked.empty()) {
    oracle_rows_.clear();
    for (const std::int64_t i : checked) oracle_rows_.push_back(std::move(rows[static_cast<std::size_t>(i)]));
    // A forward keeps no gradient, so its rows serve no later case with one; the pass is the same for a whole sweep.
    oracle_loss_ = one.loss;
  }
  return measured;
}

const std::vector<OracleRow>& Runner::oracle(const Case& one) {
  if (oracle_loss_ == one.loss) return oracle_rows_;
  const std::vector<std::int64_t> rows = rows_to_check(one.rows, one.vocab);
  oracle_rows_ = evaluate_rows(ranks_, *problem_, spec_, one, measurement_, rows,
                               one.pass == Pass::forward ? std::vector<std::int64_t>() : rows);
  oracle_loss_ = one.loss;
  return oracle_rows_;
}

void Runner::check(const Case& one, const Measured& measured, Result& result) {
  const std::vector<std::int64_t> rows = rows_to_check(one.rows, one.vocab);
  const std::vector<OracleRow>& expected = oracle(one);
  const std::string difference = difference_of_ranks(ranks_.all_texts(bits_of(measured.losses)));
  if (!difference.empty()) result.status = "failed: " + difference;
  if (!ranks_.is_first()) return;
  double worst_loss = 0;
  double worst_gradient = 0;
  std::vector<double> rounded;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const auto row = static_cast<std::size_t>(rows[k]);
    for (std::size_t output = 0; output < measured.losses.size(); ++output) {
      worst_loss = std::max(worst_loss, loss_error(measured.losses[output][row], expected[k].losses[output]));
    }
    if (one.pass == Pass::forward) continue;
    const std::vector<double>& gradient = measured.gradients[options_.dump_grad ? row : k];
    rounded = expected[k].gradient;
    for (std::size_t j = 0; j < rounded.size(); ++j) {
      rounded[j] = nearest_to(one.type, rounded[j], expected[k].terms[j], gradient[j]);
    }
    worst_gradient = std::max(worst_gradient, gradient_error(gradient, rounded));
  }
  result.loss_error = worst_loss;
  if (one.pass != Pass::forward) result.grad_error = worst_gradient;
  const std::string reason = failure(one.type, result.loss_error, result.grad_error);
  if (!reason.empty() && difference.empty()) result.status = "failed: " + reason;
}

void Runner::add_to_dump(const Case& one, const Measured& measured) {
  dump_->add_losses(one.loss, measured.losses);
  if (!options_.dump_grad) return;
  std::vector<double> whole;
  whole.reserve(static_cast<std::size_t>(one.rows * one.vocab));
  for (const auto& row : measured.gradients) whole.insert(whole.end(), row.begin(), row.end());
  dump_->add_gradient(one.loss, whole);
}

}  // namespace entropy_sweep
