// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <numeric>
#include <string_view>
#include <utility>
#include <vocabloss/error.hpp>

#include "check.hpp"
#include "memory.hpp"

namespace entropy_sweep {
namespace {

/// One line, without the library's own name in front: what a table can show.
std::string one_line(std::string_view message) {
  constexpr std::string_view prefix = "vocabloss: ";
  if (message.substr(0, prefix.size()) == prefix) message.remove_prefix(prefix.size());
  std::string line;
  for (const char c : message) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!blank) line += c;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// What the exception being handled means for a case.
std::string status_of_current_exception() {
  try {
    throw;
  } catch (const vocabloss::PathRefused& error) {
    return "refused: " + one_line(error.what());
  } catch (const std::bad_alloc& error) {
    return "oom: " + one_line(error.what());
  } catch (const std::exception& error) {
    // Kokkos reports a View that it could not allocate as a plain runtime_error.
    const std::string line = one_line(error.what());
    const bool memory = line.find("ailed to allocate") != std::string::npos;
    return (memory ? "oom: " : "failed: ") + line;
  } catch (...) {
    return "failed: unknown exception";
  }
}

class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

}  // namespace

Runner::Runner(const Options& options, const InputData* input, Dump* dump)
    : options_(options), input_(input), dump_(dump) {
  measurement_.repeat = options.repeat;
  measurement_.logit_scale = options.logit_scale;
  measurement_.teacher_scale = options.teacher_scale;
  measurement_.temperature = options.temperature;
  measurement_.jsd_beta = options.jsd_beta;
  measurement_.ignore_index = options.ignore_index;
}

Result Runner::run(const Case& one) {
  Result result;
  result.point = one;
  result.columns = one.vocab;
  if (input_ != nullptr) result.input = input_->name();
  try {
    run_or_throw(one, result);
  } catch (...) {
    result.status = status_of_current_exception();
    // An interrupted case may have left its gradient over the logits; a failed allocation wants the memory back.
    problem_.reset();
    oracle_loss_.reset();
  }
  return result;
}

void Runner::run_or_throw(const Case& one, Result& result) {
  if (one.comm != Comm::self) {
    throw vocabloss::BackendMissing(fmt::format("comm {} is not in this build; use --comm self", to_name(one.comm)));
  }
  if (one.vocab > std::numeric_limits<int>::max()) {
    throw vocabloss::PathRefused(fmt::format("{} columns on one rank, more than {}; split the vocabulary over ranks",
                                             one.vocab, std::numeric_limits<int>::max()));
  }
  use_problem_of(one);
  expect_memory(one);

  const bool has_gradient = one.pass != Pass::forward;
  const std::vector<std::int64_t> checked =
      options_.check ? rows_to_check(one.rows, one.vocab) : std::vector<std::int64_t>();
  measurement_.want_losses = options_.check || dump_ != nullptr;
  measurement_.gradient_rows.clear();
  if (has_gradient) measurement_.gradient_rows = options_.dump_grad ? all_rows() : checked;

  Measured measured = one.path == Path::reference ? run_reference(one, checked) : problem_->run(one, measurement_);
  result.plan = measured.plan;
  result.block_cap = measured.block_cap;
  result.ms = measured.ms;
  result.share_of_stream = measured.share_of_stream;
  result.peak_extra_bytes = measured.peak_extra_bytes;
  if (options_.check) check(one, measured, result);
  if (dump_ != nullptr) add_to_dump(one, measured);
}

void Runner::use_problem_of(const Case& one) {
  const ProblemSpec spec{
      .rows = one.rows, .vocab = one.vocab, .type = one.type, .seed = options_.seed, .input = input_};
  if (problem_ != nullptr && spec == spec_) return;
  problem_.reset();  // before the next one takes memory
  oracle_loss_.reset();
  oracle_rows_.clear();
  spec_ = spec;
  problem_ = make_problem(spec);
}

void Runner::expect_memory(const Case& one) const {
  if (!data_on_host()) return;            // the device says itself when it is full
  std::int64_t each = size_of(one.type);  // logits
  if (one.pass != Pass::forward && one.path != Path::reference) each += size_of(one.type);  // gradient, or a copy
  if (needs_teacher(one.loss)) each += size_of(one.teacher.value_or(one.type));
  if (options_.dump_grad) each += 8 + 4;
  const std::int64_t needed = one.rows * one.vocab * each;
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
      evaluate_rows(*problem_, spec_, one, measurement_, all_rows(), measurement_.gradient_rows);
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
  oracle_rows_ = evaluate_rows(*problem_, spec_, one, measurement_, rows,
                               one.pass == Pass::forward ? std::vector<std::int64_t>() : rows);
  oracle_loss_ = one.loss;
  return oracle_rows_;
}

void Runner::check(const Case& one, const Measured& measured, Result& result) {
  const std::vector<std::int64_t> rows = rows_to_check(one.rows, one.vocab);
  const std::vector<OracleRow>& expected = oracle(one);
  double worst_loss = 0;
  double worst_gradient = 0;
  std::vector<double> rounded;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const auto row = static_cast<std::size_t>(rows[k]);
    for (std::size_t output = 0; output < measured.losses.size(); ++output) {
      worst_loss = std::max(worst_loss, loss_error(measured.losses[output][row], expected[k].losses[output]));
    }
    if (one.pass == Pass::forward) continue;
    rounded = expected[k].gradient;
    for (double& value : rounded) value = rounded_to(one.type, value);
    const std::size_t place = options_.dump_grad ? row : k;
    worst_gradient = std::max(worst_gradient, gradient_error(measured.gradients[place], rounded));
  }
  result.loss_error = worst_loss;
  if (one.pass != Pass::forward) result.grad_error = worst_gradient;
  const std::string reason = failure(one.type, result.loss_error, result.grad_error);
  if (!reason.empty()) result.status = "failed: " + reason;
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
