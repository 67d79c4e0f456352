// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_TABLE_HPP
#define ENTROPY_SWEEP_TABLE_HPP

/// \file
/// Results for a person: a table of at most 120 columns, what all cases share in the lines above it, reasons below.

#include <string>
#include <vector>

#include "report.hpp"

namespace entropy_sweep {

/// The whole text, ending in a line that counts outcomes.
std::string to_table(const Context& context, const std::vector<Result>& results);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_TABLE_HPP
