// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_CHECK_HPP
#define VOCABLOSS_TEST_CHECK_HPP

/// \file
/// Runs a Call and holds it against what it must give: per row, per element, sums, counts, and nothing else touched.

#include <gtest/gtest.h>

#include <string>

#include "support/call.hpp"

namespace test {

/// Records failures with the call's description. A path that refuses is not a failure, unless it is one that never may.
/// \return the outputs
Outputs check(const LossEntry& loss, const Call& call);

/// The comparison alone.
void expect_agree(const LossEntry& loss, const Call& call, const Outputs& actual, const Outputs& expected);

/// "reverse_kl team bf16 3 x 129 ...", for traces.
std::string describe(const LossEntry& loss, const Call& call);

/// The same numbers in the same places, NaN for NaN.
void expect_same_bits(const Outputs& a, const Outputs& b);

}  // namespace test

#endif
