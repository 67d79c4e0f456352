// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "oracle.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <limits>
#include <utility>
#include <vocabloss/loss/losses.hpp>
#include <vocabloss/loss/reference.hpp>

namespace entropy_sweep {
namespace {

using vocabloss::reference::RowInput;
using vocabloss::reference::RowOutput;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

enum class RowKind { counts, masked, poisoned };

struct Row {
  RowKind kind = RowKind::counts;
  RowInput input{};
};

RowOutput evaluate(Loss loss, const vocabloss::LossOptions& options, const RowInput& row) {
  namespace shipped = vocabloss::loss;
  using vocabloss::reference::evaluate;
  switch (loss) {
    case Loss::cross_entropy:
      return evaluate(shipped::CrossEntropy<double>(options), row);
    case Loss::soft_cross_entropy:
      return evaluate(shipped::SoftCrossEntropy<double>(options), row);
    case Loss::forward_kl:
      return evaluate(shipped::ForwardKl<double>(options), row);
    case Loss::reverse_kl:
      return evaluate(shipped::ReverseKl<double>(options), row);
    case Loss::jsd:  // exactly 0 and 1 are other losses by definition
      if (options.jsd_beta == 0) return evaluate(shipped::ForwardKl<double>(options), row);
      if (options.jsd_beta == 1) return evaluate(shipped::ReverseKl<double>(options), row);
      return evaluate(shipped::Jsd<double>(options), row);
    case Loss::z_loss:
      return evaluate(shipped::ZLoss<double>(options), row);
    case Loss::entropy:
      return evaluate(shipped::Entropy<double>(options), row);
    case Loss::log_prob:
      return evaluate(shipped::LogProb<double>(options), row);
    case Loss::log_prob_entropy:
      break;
  }
  return evaluate(shipped::LogProbEntropy<double>(options), row);
}

OracleRow result_of(const Row& row, Loss loss, const vocabloss::LossOptions& options, bool keep_gradient) {
  const auto outputs = static_cast<std::size_t>(outputs_of(loss));
  const std::size_t columns = row.input.x.size();
  OracleRow result;
  if (row.kind == RowKind::counts) {
    RowOutput output = evaluate(loss, options, row.input);
    result.losses.assign(output.losses, output.losses + outputs);
    if (keep_gradient) {
      result.gradient = std::move(output.gradient);
      result.terms.assign(output.terms.begin(), output.terms.end());
    }
    return result;
  }
  const double value = row.kind == RowKind::masked ? 0 : nan;
  result.losses.assign(outputs, value);
  if (keep_gradient) result.gradient.assign(columns, value), result.terms.assign(columns, 0.0f);
  return result;
}

}  // namespace

int outputs_of(Loss loss) { return loss == Loss::log_prob_entropy ? 2 : 1; }

std::vector<OracleRow> evaluate_rows(const Ranks& ranks, Problem& problem, const ProblemSpec& spec, const Case& one,
                                     const Measurement& measurement, const std::vector<std::int64_t>& rows,
                                     const std::vector<std::int64_t>& gradient_rows) {
  const vocabloss::LossOptions options{.logit_scale = measurement.logit_scale,
                                       .teacher_scale = measurement.teacher_scale,
                                       .temperature = measurement.temperature,
                                       .jsd_beta = measurement.jsd_beta};
  const bool labels_in_file = spec.input != nullptr && spec.input->has_labels();
  std::vector<std::int64_t> labels;
  if (needs_labels(one.loss) || labels_in_file) labels = labels_of(spec);
  const std::vector<std::uint8_t> mask = spec.input != nullptr ? spec.input->mask() : std::vector<std::uint8_t>();

  const auto read = [&](std::int64_t i) {
    Row row;
    row.input.x = ranks.gather_on_first(problem.logits_row(i));
    row.input.t = ranks.gather_on_first(problem.teacher_row(one, i));
    const auto at = static_cast<std::size_t>(i);
    if (!labels.empty()) {
      const bool inside = labels[at] >= 0 && labels[at] < spec.vocab;
      if (!inside) row.kind = RowKind::poisoned;
      if (inside) row.input.label = static_cast<int>(labels[at]);
      if (labels[at] == measurement.ignore_index) row.kind = RowKind::masked;
    }
    if (!mask.empty() && mask[at] == 0) row.kind = RowKind::masked;
    return row;
  };

  // Rows are read here, since only one thread may copy from a device, and evaluated there, a few for each thread.
  using HostExec = Kokkos::DefaultHostExecutionSpace;
  const HostExec exec;
  const std::size_t block = 4 * static_cast<std::size_t>(exec.concurrency());
  std::vector<OracleRow> results(rows.size());
  for (std::size_t first = 0; first < rows.size(); first += block) {
    const std::size_t count = std::min(block, rows.size() - first);
    std::vector<Row> inputs;
    for (std::size_t k = 0; k < count; ++k) inputs.push_back(read(rows[first + k]));
    if (!ranks.is_first()) continue;
    Kokkos::parallel_for(
        "entropy_sweep::reference", Kokkos::RangePolicy<HostExec, Kokkos::Schedule<Kokkos::Dynamic>>(exec, 0, count),
        [&](const std::size_t k) {
          const bool keep = std::binary_search(gradient_rows.begin(), gradient_rows.end(), rows[first + k]);
          results[first + k] = result_of(inputs[k], one.loss, options, keep);
        });
    exec.fence("entropy_sweep::reference");
  }
  if (!ranks.is_first()) results.clear();
  return results;
}

}  // namespace entropy_sweep
