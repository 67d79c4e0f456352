// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "problem.hpp"

#include "synthetic.hpp"

namespace entropy_sweep {

std::vector<std::int64_t> labels_of(const ProblemSpec& spec) {
  if (spec.input != nullptr) return spec.input->labels();
  std::vector<std::int64_t> labels(static_cast<std::size_t>(spec.rows));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = random_label(spec.seed, static_cast<std::int64_t>(i), spec.vocab);
  }
  return labels;
}

bool data_on_host() {
  using Memory = Kokkos::DefaultExecutionSpace::memory_space;
  return Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;
}

std::unique_ptr<Problem> make_problem(const ProblemSpec& spec) {
  switch (spec.type) {
    case ValueType::bf16:
      return make_bf16_problem(spec);
    case ValueType::fp16:
      return make_fp16_problem(spec);
    case ValueType::fp32:
      return make_fp32_problem(spec);
    case ValueType::fp64:
      break;
  }
  return make_fp64_problem(spec);
}

}  // namespace entropy_sweep
