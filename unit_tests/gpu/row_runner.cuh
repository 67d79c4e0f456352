// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_ROW_RUNNER_CUH
#define VOCABLOSS_ROW_RUNNER_CUH

/// \file
/// \brief Runs a problem on the device in one layout and compares every row and every guard byte.

#include <array>
#include <map>
#include <string>

#include "device_matrix.cuh"
#include "row_expected.hpp"

namespace row_check {

/// Where the rows of a problem lie and how the call is made. Offsets and pads count elements.
struct Layout {
  const char* name;
  int pad = 0, offset = 0, teacher_offset = 0, gradient_offset = 0;
  bool in_place = false, accumulate = false, two_calls = false, long_labels = true;
};
inline constexpr std::array<Layout, 6> layouts = {{
    {.name = "aligned"},
    {.name = "odd stride",
     .pad = 5,
     .offset = 3,
     .teacher_offset = 3,
     .gradient_offset = 3,
     .two_calls = true,
     .long_labels = false},
    {.name = "phases differ", .pad = 5, .offset = 1, .teacher_offset = 2, .gradient_offset = 5, .accumulate = true},
    {.name = "no pad, phases differ", .offset = 1, .teacher_offset = 6, .gradient_offset = 3, .two_calls = true},
    {.name = "in place, phases differ", .pad = 3, .offset = 7, .teacher_offset = 1, .in_place = true},
    {.name = "in place, aligned", .in_place = true, .two_calls = true},
}};

/// How far results were from the limits at worst: 1 is at the limit.
struct Worst {
  double loss = 0, gradient = 0;
  void take(const Worst& other) { loss = std::fmax(loss, other.loss), gradient = std::fmax(gradient, other.gradient); }
};

class RowRunner {
 public:
  Worst worst;

  /// Empty if all is well, else what is wrong. Two runs must give the same bits.
  std::string check(const RowLoss& loss, const RowProblem& problem, const std::vector<ExpectedRow>& expected,
                    DataType gradient_type, const Layout& layout, const Launch& launch) {
    const RowCall<float> call = prepare(loss, problem, gradient_type, layout);
    Matrix& g = layout.in_place ? x_ : g_;
    std::string wrong;
    for (int repeat = 0; repeat < 2 && wrong.empty(); ++repeat) {
      x_.buffer.upload(), losses_.upload();
      if (!layout.in_place) g_.buffer.upload();
      RowCall<float> forward = call, backward = call;
      forward.gradient = {};
      backward.losses[0] = backward.losses[1] = nullptr;
      if (layout.two_calls) launch(problem.type, forward, Pass::forward);
      launch(problem.type, layout.two_calls ? backward : call,
             layout.two_calls ? Pass::backward : Pass::forward_backward);
      CUDA(cudaDeviceSynchronize());
      losses_.download(got_losses_[repeat]), g.buffer.download(got_gradient_[repeat]);
      if (repeat == 0) wrong = compare(loss, problem, expected, layout, g);
    }
    if (!wrong.empty()) return wrong;
    if (got_losses_[0] != got_losses_[1] || got_gradient_[0] != got_gradient_[1])
      return "the second run gave other bits";
    return untouched(loss, layout);
  }

 private:
  RowCall<float> prepare(const RowLoss& loss, const RowProblem& problem, DataType gradient_type, const Layout& layout) {
    x_.shape(problem.type, problem.rows, problem.columns, layout.pad, layout.offset);
    x_.put(problem.x);
    RowCall<float> call;
    call.rows = problem.rows, call.columns = static_cast<int>(problem.columns), call.vocab = problem.columns;
    call.logits = {x_.first(), x_.type, x_.stride};
    if (loss.streams == 2) {
      t_.shape(problem.teacher_type, problem.rows, problem.columns, layout.pad, layout.teacher_offset);
      t_.put(loss.teacher_is_logits ? problem.teacher_logits : problem.teacher_probabilities);
      t_.buffer.upload();
      call.teacher = {t_.first(), t_.type, t_.stride};
    }
    if (!layout.in_place) {
      g_.shape(gradient_type, problem.rows, problem.columns, layout.pad, layout.gradient_offset);
      if (layout.accumulate) g_.put(problem.before());
    }
    const Matrix& g = layout.in_place ? x_ : g_;
    call.gradient = {g.first(), g.type, g.stride, layout.accumulate};
    if (loss.needs_label || problem.modifiers) {
      if (layout.long_labels) {
        labels_.put(problem.labels);
        call.labels64.data = labels_.device<std::int64_t>();
      } else {
        labels_.put(std::vector<std::int32_t>(problem.labels.begin(), problem.labels.end()));
        call.labels32.data = labels_.device<std::int32_t>();
      }
    }
    if (problem.modifiers) {
      mask_.put(problem.mask), weights_.put(problem.weights);
      call.mask.data = mask_.device();
      call.row_weights.data = weights_.device<float>();
      for (int k = 0; k < 2; ++k) {
        upstream_[k].put(problem.upstream[k]);
        call.upstream[k].data = upstream_[k].device<float>();
      }
    }
    call.gradient_factor = gradient_factor, call.loss_factor = loss_factor;
    losses_.fill(loss.outputs * problem.rows * sizeof(float) + 64, Matrix::guard);
    for (int k = 0; k < loss.outputs; ++k) call.losses[k] = losses_.device<float>() + k * problem.rows;
    statistics_.fill(loss.statistics * problem.rows * sizeof(float) + 64, Matrix::guard);
    statistics_.upload();
    if (layout.two_calls) call.statistics = statistics_.device<float>();
    return call;
  }

  std::string compare(const RowLoss& loss, const RowProblem& problem, const std::vector<ExpectedRow>& expected,
                      const Layout& layout, const Matrix& g) {
    std::vector<std::string> wrong(problem.rows);
    std::vector<Worst> worsts(problem.rows);
    for_rows(problem.rows, problem.columns,
             [&](std::int64_t i) { wrong[i] = compare_row(loss, problem, expected[i], layout, g, i, worsts[i]); });
    for (const Worst& row : worsts) worst.take(row);
    for (std::int64_t i = 0; i < problem.rows; ++i) {
      if (!wrong[i].empty()) return "row " + std::to_string(i) + " (" + name_of(problem.kind(i)) + "): " + wrong[i];
    }
    if (!g.guards_hold(got_gradient_[0])) return "a byte beside the gradient's rows was written";
    return "";
  }

  std::string compare_row(const RowLoss& loss, const RowProblem& problem, const ExpectedRow& row, const Layout& layout,
                          const Matrix& g, std::int64_t i, Worst& worst_of_row) const {
    char text[160];
    for (int k = 0; k < loss.outputs; ++k) {
      const double ours = reinterpret_cast<const float*>(got_losses_[0].data())[k * problem.rows + i];
      const double wanted = row.output.losses[k];
      const double error = std::fabs(ours - wanted) / loss_limit(row, wanted);
      const bool same = std::isfinite(wanted) ? error <= 1 && (!row.is_masked || ours == 0)
                        : std::isnan(wanted)  ? std::isnan(ours)
                                              : ours == wanted;
      if (std::isfinite(error)) worst_of_row.loss = std::fmax(worst_of_row.loss, error);
      if (same) continue;
      std::snprintf(text, sizeof text, "loss %d is %.9g, expected %.9g (%.2f limits)", k, ours, wanted, error);
      return text;
    }
    double worst_here = 1;
    std::string wrong;
    for (std::int64_t j = 0; j < problem.columns; ++j) {
      const double ours = read(g.type, got_gradient_[0].data(), g.index(i, j));
      const double before = layout.accumulate ? read(g.type, g.buffer.host.data(), g.index(i, j)) : 0.0;
      const double exact = row.output.gradient[j] + before;
      if ((std::isnan(exact) && std::isnan(ours)) || ours == exact) continue;
      const double scaled_x = TermsOf::scale(loss.options) * problem.x[i * problem.columns + j];
      const double limit = row.is_masked ? 0.0 : gradient_limit(row, g.type, j, scaled_x, exact, layout.accumulate);
      const double share = std::fabs(ours - exact) / limit;
      if (std::isfinite(share)) worst_of_row.gradient = std::fmax(worst_of_row.gradient, share);
      if (share <= worst_here) continue;  // false for NaN
      worst_here = std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
      std::snprintf(text, sizeof text, "gradient %lld is %.9g, expected %.9g (%.2f limits; terms %.3g)",
                    static_cast<long long>(j), ours, exact, share, row.terms[j]);
      wrong = text;
    }
    return wrong;
  }

  /// What a call may not write: its inputs, and what lies behind its small outputs.
  std::string untouched(const RowLoss& loss, const Layout& layout) {
    const auto same = [this](const Buffer& buffer) {
      buffer.download(scratch_);
      return scratch_ == buffer.host;
    };
    if (!layout.in_place && !same(x_.buffer)) return "logits were changed";
    if (loss.streams == 2 && !same(t_.buffer)) return "the teacher was changed";
    for (const Buffer* buffer : {&losses_, &statistics_}) {
      buffer->download(scratch_);
      for (std::size_t b = scratch_.size() - 64; b < scratch_.size(); ++b) {
        if (scratch_[b] != Matrix::guard) return "losses or statistics overrun";
      }
    }
    return "";
  }

  Matrix x_, t_, g_;
  Buffer labels_, mask_, weights_, upstream_[2], losses_, statistics_;
  std::vector<unsigned char> got_losses_[2], got_gradient_[2], scratch_;
};

/// Counts, and the first failure of each loss, type and kind of row, in words.
class Report {
 public:
  int checked = 0, failed = 0;

  void add(const RowLoss& loss, const RowProblem& problem, const Layout& layout, DataType gradient_type,
           const std::string& launch, const std::string& wrong) {
    ++checked;
    if (wrong.empty()) return;
    ++failed;
    const std::string kind = wrong.substr(0, wrong.find(')'));  // "row 3 (ties"
    const std::string key =
        std::string(loss.name) + name_of(problem.type) + kind.substr(std::min(kind.find('('), kind.size()));
    if (++told_[key] > 1) return;
    std::printf("FAILED %s %s %lld x %lld (teacher %s, gradient %s), %s%s, %s: %s\n", loss.name, name_of(problem.type),
                static_cast<long long>(problem.rows), static_cast<long long>(problem.columns),
                name_of(problem.teacher_type), name_of(gradient_type), layout.name,
                problem.modifiers ? ", modifiers" : "", launch.c_str(), wrong.c_str());
    std::fflush(stdout);
  }
  int close(const std::string& what) const {
    std::printf("%s: %d cases, %d failed: %s\n", what.c_str(), checked, failed, failed ? "FAILED" : "all well");
    return failed ? 1 : 0;
  }

 private:
  std::map<std::string, int> told_;
};

}  // namespace row_check

#endif
