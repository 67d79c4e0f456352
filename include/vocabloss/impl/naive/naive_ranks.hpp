// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_NAIVE_NAIVE_RANKS_HPP
#define VOCABLOSS_IMPL_NAIVE_NAIVE_RANKS_HPP

/// \file
/// \brief Path `naive` between ranks: each maximum and each sum over a row is reduced over the ranks where it was
/// found.
///
/// That is the exchange `two_allreduce` unfused, as it is written by hand: two reductions a softmax, and one for each
/// further sum.

#include <cstdint>
#include <functional>

namespace vocabloss::Impl {

/// Reductions in place of a value a row, in the order of the call's instance.
template <class Real>
struct NaiveRanks {
  std::function<void(Real* values, std::int64_t rows)> maximum;
  std::function<void(Real* values, std::int64_t rows)> sum;
};

}  // namespace vocabloss::Impl

#endif
