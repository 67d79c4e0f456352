// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_CHECK_HPP
#define ENTROPY_SWEEP_CHECK_HPP

/// \file
/// How far results are from the reference, so that NaN never passes unless the reference is NaN too.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "names.hpp"

namespace entropy_sweep {

/// |ours - reference| / max(1, |reference|); 0 where both are NaN or the same infinity, infinity where only one is.
double loss_error(double ours, double reference);

/// 2-norm of (ours - reference) over max(2-norm of reference, 1e-6), elements compared as in `loss_error`: a NaN or an
/// infinity in one only makes the error infinite. Rows of the same length.
double gradient_error(std::span<const double> ours, std::span<const double> reference);

/// The limits of --check.
double loss_limit(ValueType type);
double gradient_limit(ValueType type);

/// Empty, or "loss_error 2.0e-03 above 1e-05" for the first that is above its limit. NaN is above every limit.
std::string failure(ValueType type, std::optional<double> loss, std::optional<double> gradient);

/// The losses' bits as a text of fixed length: other values, almost surely another text. All NaN are alike.
std::string bits_of(const std::vector<std::vector<double>>& losses);

/// Empty where all ranks have the text of the first; else "losses of rank 2 differ from rank 0's in bits".
std::string difference_of_ranks(const std::vector<std::string>& bits);

/// The rows that --check looks at: all of them up to 2^24 elements; above that 32, spread evenly from the first row to
/// the last.
std::vector<std::int64_t> rows_to_check(std::int64_t rows, std::int64_t vocab);

/// `value` rounded to the type once, to nearest even, and widened again.
double rounded_to(ValueType type, double value);

/// What `ours` is compared with, where `exact` is the reference before rounding: `exact` rounded, or `ours` itself if
/// the type has 16 bits and ours is `exact` rounded once from something as good as float (vocabloss/loss/accuracy.hpp).
/// One step of a row's largest gradient alone is up to 4e-3 of the row's norm. `terms`: of reference::RowOutput.
double nearest_to(ValueType type, double exact, double terms, double ours);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_CHECK_HPP
