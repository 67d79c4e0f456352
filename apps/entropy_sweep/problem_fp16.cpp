// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "typed_problem.hpp"

namespace entropy_sweep {

std::unique_ptr<Problem> make_fp16_problem(const ProblemSpec& spec) {
  return std::make_unique<TypedProblem<vocabloss::float16>>(spec);
}

}  // namespace entropy_sweep
