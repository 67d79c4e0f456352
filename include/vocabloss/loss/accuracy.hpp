// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_ACCURACY_HPP
#define VOCABLOSS_LOSS_ACCURACY_HPP

/// \file
/// \brief How near to the reference is right, for losses that are computed in float: the accuracy rule of the library.
///
/// Losses: within 3e-6 of max(1, |loss|). 16-bit gradients: rounded once from something as good as float, 0.51 units in
/// the last place and 1e-6 of p_j times the terms subtracted. Of terms below some 5e-8 a float knows less: the
/// logarithm of a probability is rounded by up to half a unit in its last place, 2^-24 |log p_j|, and p_j by as much of
/// itself. Float gradients: 2^-22 max(8, |lse|, |s x_j|) of p_j times those terms.
///
/// The terms subtracted are those of the formula written out, each by its absolute value (RowOutput::terms):
///     labels                       p_j and 1
///     teacher logits, probability  p_j (times the sum of q) and q_j
///     reverse KL                   p_j times |log p_j|, |log q_j| and |loss|
///     JSD                          p_j times |log p_j|, |log m_j| and |sum p log(p / m)|
///     entropy                      p_j times |log p_j| and H
/// The two logarithms count apart, not as their difference d_j, because each is rounded before they are subtracted: of
/// two columns with log p_j = -10 and d_j = 0.01, float knows d_j no better than log p_j itself. In a limit of |d_j| +
/// |loss| alone a row where p and q are near each other, which is what training makes of them, would be asked for
/// digits that no float holds.

#include <algorithm>
#include <cmath>

namespace vocabloss::reference {

/// A stored type: the digits of its significand, and the exponent of its smallest normal number.
struct Format {
  int digits, lowest_exponent;
};
inline constexpr Format bf16{8, -126}, fp16{11, -14}, fp32{24, -126};

/// One unit in the last place of a stored value.
inline double unit_of(const Format& format, double value) {
  const int exponent = value == 0 ? format.lowest_exponent : std::max(format.lowest_exponent, std::ilogb(value));
  return std::ldexp(1.0, exponent + 1 - format.digits);
}

/// Whether `stored` is `exact` rounded once to a 16-bit type, from something as good as float.
inline bool is_rounded_once(const Format& format, double stored, double exact, double terms) {
  if (!std::isfinite(exact)) return stored == exact;
  return std::fabs(stored - exact) <= 0.51 * unit_of(format, exact) + 1e-6 * terms;
}

}  // namespace vocabloss::reference

#endif
