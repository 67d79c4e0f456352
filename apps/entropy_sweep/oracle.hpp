// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_ORACLE_HPP
#define ENTROPY_SWEEP_ORACLE_HPP

/// \file
/// Path `reference`: the library's textbook formulas in double, each row serially on the host, whatever device the
/// other paths use. What --check compares with.

#include <cstdint>
#include <vector>

#include "problem.hpp"

namespace entropy_sweep {

struct OracleRow {
  std::vector<double> losses{};    ///< of each output
  std::vector<double> gradient{};  ///< upstream gradient 1, not rounded; empty unless wanted
  std::vector<float> terms{};      ///< what the gradient's rounding is relative to: reference::RowOutput; as gradient
};

/// Number of losses a row has.
int outputs_of(Loss loss);

/// Evaluates `rows` of the problem as `one` poses it (pass and path do not matter); mask, ignored and impossible labels
/// as the library treats them. Rows are spread over the host's threads. The gradients of `gradient_rows`, a part of
/// `rows` in the same order, are kept. Collective: the first rank gathers whole rows and evaluates them, the others
/// send theirs and get nothing back.
std::vector<OracleRow> evaluate_rows(const Ranks& ranks, Problem& problem, const ProblemSpec& spec, const Case& one,
                                     const Measurement& measurement, const std::vector<std::int64_t>& rows,
                                     const std::vector<std::int64_t>& gradient_rows);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_ORACLE_HPP
