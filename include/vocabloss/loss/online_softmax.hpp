// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_ONLINE_SOFTMAX_HPP
#define VOCABLOSS_LOSS_ONLINE_SOFTMAX_HPP

/// \file
/// \brief The running maximum of a stream, and what moving it costs: the only place where states are rescaled.
///
/// A softmax is summed in one pass by keeping the largest logit seen and the sum of 2^((x - max) * scale) relative to
/// it (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, section 3). Every further sum of the
/// library is kept relative to the maxima too, which keeps its digits at any common offset of the logits.

#include <vocabloss/loss/math.hpp>
#include <vocabloss/loss/pack.hpp>

#include <Kokkos_Macros.hpp>

namespace vocabloss::loss {

/// The maximum of nothing. Finite, so that a piece of minus infinities alone is summed without infinity minus infinity.
template <class Real>
KOKKOS_INLINE_FUNCTION constexpr Real empty_maximum() {
  return sizeof(Real) == 4 ? Real(-3.4028234663852886e38) : Real(-1.7976931348623157e308);
}

/// One stream whose maximum goes from `from` up to `to`.
template <class Real>
struct MaximumMove {
  /// Distance in units of log 2, never positive, finite.
  Real distance;
  /// 2^distance: what sums relative to the old maximum are multiplied with.
  Real factor;

  KOKKOS_INLINE_FUNCTION MaximumMove(Real from, Real to, Real scale_log2) {
    const Real steps = (from - to) * scale_log2;
    const Real farthest = empty_maximum<Real>();  // a first maximum is infinitely far from none
    distance = steps < farthest ? farthest : steps;
    factor = exp2_of(distance);
  }
};

/// x relative to a maximum in one multiply-add, for the kernels that count instructions: at(x) = x * scale + offset,
/// where offset = -maximum * scale is rounded once. So at(x) is too large by `residual`, the same for all columns: a
/// sum of 2^at(x) is put right by one multiplication with `back()`.
template <class Real>
struct RelativeLine {
  Real scale, offset, residual;

  KOKKOS_INLINE_FUNCTION RelativeLine(Real maximum, Real scale_log2)
      : scale(scale_log2),
        offset(rounded_product(-maximum, scale_log2)),
        residual(fused_multiply_add(maximum, scale_log2, offset)) {}

  KOKKOS_INLINE_FUNCTION Real at(Real x) const { return fused_multiply_add(x, scale, offset); }
  KOKKOS_INLINE_FUNCTION Real back() const { return exp2_of(-residual); }
  /// Whether the residual is small, which it is unless the maximum is not finite or beyond all bounds.
  KOKKOS_INLINE_FUNCTION bool is_usable() const {
    return bool(int(offset < Real(1 << 23)) & int(offset > Real(-(1 << 23))));  // no branch
  }
  /// The same, and whether a column as low as this adds nothing.
  KOKKOS_INLINE_FUNCTION bool is_usable(Real low) const { return bool(int(is_usable()) & int(at(low) < Real(-160))); }
};

/// A softmax sum kept relative to the rounded maximum * scale: see RelativeLine. No column is told from others. The
/// maximum may be that of some columns only: the logarithm of one that lies k units of log 2 above is rounded as
/// coarsely as k itself.
template <class Real>
struct PlainStream {
  static constexpr double of_nothing = -1e30;
  Real maximum = Real(of_nothing);
  Real sum = Real(0);

  KOKKOS_INLINE_FUNCTION bool is_of_nothing() const { return maximum == Real(of_nothing); }

  struct Move {
    Real distance, factor;
  };
  KOKKOS_INLINE_FUNCTION Move raise(Real to, Real scale_log2) {
    const Real before = offset(scale_log2);
    maximum = larger(maximum, to);
    const Real distance = larger(offset(scale_log2) - before, Real(-3e38));
    const Real factor = exp2_of(distance);
    sum *= factor;
    return {distance, factor};
  }
  /// The same for columns and moves, which must be relative to one offset.
  KOKKOS_INLINE_FUNCTION Real offset(Real scale_log2) const { return rounded_product(-maximum, scale_log2); }
  KOKKOS_INLINE_FUNCTION Real at(Real x, Real scale_log2) const {
    return fused_multiply_add(x, scale_log2, offset(scale_log2));
  }
  /// N columns.
  template <int N>
  KOKKOS_INLINE_FUNCTION void add(const Pack<Real, N>& x, Real scale_log2) {
    for (int j = 0; j < N; ++j) sum += exp2_of(at(x.lane[j], scale_log2));
  }
  /// Of a merged sum: whether 1 may be subtracted although the 1 of its maximum was added in the middle. That costs
  /// some 1e-7: above this a hundredth of a bfloat16 unit of what is left; of float32, inside 2^-22 * 8 of the terms.
  KOKKOS_INLINE_FUNCTION bool keeps_digits() const { return sum >= Real(least_plain_sum); }
  static constexpr double least_plain_sum = 1 + 0x1p-8;
  /// The same where another softmax is subtracted, which may be so near that far less than 1 - p is left.
  KOKKOS_INLINE_FUNCTION bool keeps_digits_of_difference() const { return sum >= Real(least_plain_sum_of_two); }
  static constexpr double least_plain_sum_of_two = 1 + 0x1p-4;
};

/// Plain sums of the two streams, a weighted one, or whatever a round has.
template <class Real>
struct PlainSums {
  PlainStream<Real> x, t;
  Real weighted = Real(0);

  /// Nothing yet, relative to the same maxima.
  KOKKOS_INLINE_FUNCTION PlainSums emptied() const { return {{x.maximum, Real(0)}, {t.maximum, Real(0)}, Real(0)}; }
  /// Adds sums relative to the same maxima.
  KOKKOS_INLINE_FUNCTION void add(const PlainSums& other) {
    x.sum += other.x.sum;
    t.sum += other.t.sum;
    weighted += other.weighted;
  }
};

/// a + b and what its rounding lost.
template <class Real>
struct ExactSum {
  Real sum, lost;

  KOKKOS_INLINE_FUNCTION ExactSum(Real a, Real b) : sum(a + b) {
    const Real of_b = sum - a;
    lost = (a - (sum - of_b)) + (b - of_b);
  }
};

/// The softmax statistics of one stream: its maximum, how many columns sit at it, and the sum of
/// 2^((x - maximum) * scale) over all others.
///
/// The two are kept apart because a confident row is 1 plus very little: in one float sum the little drowns in the
/// rounding of the 1, and with it p_y - 1, which is the gradient of such a row.
template <class Real, int Lanes>
struct SoftmaxSum {
  Real maximum;
  LaneSum<Real, Lanes> at;     ///< columns at the maximum, each worth 1
  LaneSum<Real, Lanes> below;  ///< sum over the columns below it

  KOKKOS_INLINE_FUNCTION static SoftmaxSum identity() {
    return {empty_maximum<Real>(), LaneSum<Real, Lanes>::zero(), LaneSum<Real, Lanes>::zero()};
  }

  /// What lifting the maximum to at least `to` would do; nothing is changed yet.
  KOKKOS_INLINE_FUNCTION MaximumMove<Real> move_to(Real to, Real scale_log2) const {
    return MaximumMove<Real>(maximum, larger(maximum, to), scale_log2);
  }
  KOKKOS_INLINE_FUNCTION void apply(const MaximumMove<Real>& move, Real to) {
    maximum = larger(maximum, to);
    const bool stays = move.distance == Real(0);
    VOCABLOSS_VECTOR_LOOP
    for (int l = 0; l < Lanes; ++l) {
      const Real all = (below.lane[l] + at.lane[l]) * move.factor;
      below.lane[l] = stays ? below.lane[l] : all;
      at.lane[l] = stays ? at.lane[l] : Real(0);
    }
  }
  KOKKOS_INLINE_FUNCTION void raise(Real to, Real scale_log2) { apply(move_to(to, scale_log2), to); }

  /// x relative to the maximum, in units of log 2: 0 at the maximum, -inf where the probability is 0.
  KOKKOS_INLINE_FUNCTION Real relative(Real x, Real scale_log2) const { return (x - maximum) * scale_log2; }

  /// Adds a column: `a` relative to the maximum, `e` = 2^a.
  KOKKOS_INLINE_FUNCTION void add(int lane, Real a, Real e) {
#if defined(__CUDA_ARCH__)
    if (a != Real(0)) {  // two predicated additions
      below.lane[lane] += e;
    } else {
      at.lane[lane] += Real(1);
    }
#else
    below.lane[lane] += a != Real(0) ? e : Real(0);
    at.lane[lane] += a != Real(0) ? Real(0) : Real(1);
#endif
  }
  /// Adds columns to one sum, whether they sit at the maximum or not: two instructions less for each, for a stream
  /// whose excess enters a loss's value only. `sum`: of a few columns, since small ones would drown in the 1 of the
  /// maximum if they were added one by one.
  KOKKOS_INLINE_FUNCTION void add_plainly(const LaneSum<Real, Lanes>& sum) { below.add(sum); }

  /// Adds another piece at the same maximum.
  KOKKOS_INLINE_FUNCTION void add(const SoftmaxSum& other) {
    at.add(other.at);
    below.add(other.below);
  }

  KOKKOS_INLINE_FUNCTION SoftmaxSum<Real, 1> collapse() const { return {maximum, at.total(), below.total()}; }

  /// Of a merged row: whether it is a softmax. No column at the maximum: no finite logit; NaN: NaN or plus infinity.
  KOKKOS_INLINE_FUNCTION bool exists() const {
    static_assert(Lanes == 1);
    return is_softmax_sum(at.lane[0] + below.lane[0]);
  }
  /// Of a merged row: the sum less 1, to full precision; NaN where there is no softmax.
  KOKKOS_INLINE_FUNCTION Real excess() const {
    return exists() ? (at.lane[0] - Real(1)) + below.lane[0] : not_a_number<Real>();
  }
};

/// A merged plain sum, relative to the maximum itself: `back` is its line's.
template <class Real>
KOKKOS_INLINE_FUNCTION SoftmaxSum<Real, 1> softmax_sum_of(const PlainStream<Real>& plain, Real back) {
  return {plain.maximum, LaneSum<Real, 1>::zero(), {{plain.sum * back}}};
}

/// factor * 2^(x * scale + offset) of N columns: the plain gradient of a loss of one softmax, but for its label.
template <class Real, int N>
KOKKOS_INLINE_FUNCTION Pack<Real, N> plain_exponentials(const Pack<Real, N>& x, Real scale_log2, Real offset,
                                                        Real factor) {
  Pack<Real, N> result;
  for (int j = 0; j < N; ++j) {
    result.lane[j] = exp2_of(fused_multiply_add(x.lane[j], scale_log2, offset)) * factor;
  }
  return result;
}

/// log2(1 + excess): of a softmax sum.
template <class Real>
KOKKOS_INLINE_FUNCTION Real log2_of_sum(Real excess) {
  return log1p_exactly(excess) * Real(log2_of_e);
}

/// log of the ratio of two softmax sums; sums that are near each other keep their difference.
template <class Real>
KOKKOS_INLINE_FUNCTION Real log_of_ratio(Real excess_a, Real excess_b) {
  const Real ratio = (Real(1) + excess_a) / (Real(1) + excess_b);
  const bool near = ratio > Real(0.5) && ratio < Real(2);
  return near ? log1p_exactly((excess_a - excess_b) / (Real(1) + excess_b)) : log2_exactly(ratio) * Real(log_of_2);
}

template <class Real>
KOKKOS_INLINE_FUNCTION SoftmaxSum<Real, 1> merge(SoftmaxSum<Real, 1> a, SoftmaxSum<Real, 1> b, Real scale_log2) {
  const Real maximum = larger(a.maximum, b.maximum);
  a.raise(maximum, scale_log2);
  b.raise(maximum, scale_log2);
  a.add(b);
  return a;
}

/// sum += weight * factor for N columns; a term of weight 0 is 0 even if its factor is infinite. That needs two more
/// instructions a column, so a GPU first multiplies plainly, and again with care only if that gave NaN. With many lanes
/// (a CPU) the care is a vector blend and costs less than a branch.
template <class Real, int Lanes, int N>
KOKKOS_INLINE_FUNCTION void add_weighted(LaneSum<Real, Lanes>& sum, const Pack<Real, N>& weight,
                                         const Pack<Real, N>& factor) {
  if constexpr (Lanes <= 2) {
    LaneSum<Real, Lanes> plain = sum;
    for (int j = 0; j < N; ++j) {
      plain.lane[j % Lanes] = multiply_add(weight.lane[j], factor.lane[j], plain.lane[j % Lanes]);
    }
    const Real total = plain.total().value();
    if (total == total) {
      sum = plain;
      return;
    }
  }
  VOCABLOSS_VECTOR_LOOP
  for (int j = 0; j < N; ++j) sum.lane[j % Lanes] += weighted(weight.lane[j], factor.lane[j]);
}

/// A sum of terms 2^a * factor, kept apart like the sum of its weights: columns at a's maximum, and those below.
template <class Real, int Lanes>
struct WeightedSum {
  LaneSum<Real, Lanes> at;
  LaneSum<Real, Lanes> below;

  KOKKOS_INLINE_FUNCTION static WeightedSum zero() {
    return {LaneSum<Real, Lanes>::zero(), LaneSum<Real, Lanes>::zero()};
  }
  KOKKOS_INLINE_FUNCTION WeightedSum<Real, 1> collapse() const { return {at.total(), below.total()}; }

  /// Adds N columns: `a` of the weight relative to its maximum, `weight` = 2^a. See add_weighted for the two ways.
  template <int N>
  KOKKOS_INLINE_FUNCTION void add(const Pack<Real, N>& a, const Pack<Real, N>& weight, const Pack<Real, N>& factor) {
    if constexpr (Lanes <= 2) {
      WeightedSum plain = *this;
      for (int j = 0; j < N; ++j) {
        if (a.lane[j] != Real(0)) {
          plain.below.lane[j % Lanes] = multiply_add(weight.lane[j], factor.lane[j], plain.below.lane[j % Lanes]);
        } else {
          plain.at.lane[j % Lanes] += factor.lane[j];
        }
      }
      const Real total = plain.below.total().value();
      if (total == total) {
        *this = plain;
        return;
      }
    }
    VOCABLOSS_VECTOR_LOOP
    for (int j = 0; j < N; ++j) {
      const bool is_below = a.lane[j] != Real(0);
      below.lane[j % Lanes] += is_below ? weighted(weight.lane[j], factor.lane[j]) : Real(0);
      at.lane[j % Lanes] += is_below ? Real(0) : factor.lane[j];
    }
  }
  KOKKOS_INLINE_FUNCTION void add(const WeightedSum& other) {
    at.add(other.at);
    below.add(other.below);
  }

  /// When the weights' maximum moves by `move` and the factors gain `shift`: 2^dx (w + s shift), s the sum of weights.
  /// A zero factor times an infinite sum is 0: weights that vanish take their terms along. Call before the weights' own
  /// sum is moved.
  KOKKOS_INLINE_FUNCTION void move(const SoftmaxSum<Real, Lanes>& weights, const MaximumMove<Real>& move, Real shift) {
    const bool stays = move.distance == Real(0);
    VOCABLOSS_VECTOR_LOOP
    for (int l = 0; l < Lanes; ++l) {
      const Real shifted_at = at.lane[l] + weighted(weights.at.lane[l], shift);
      const Real shifted_below = below.lane[l] + weighted(weights.below.lane[l], shift);
      const Real all = weighted(move.factor, shifted_at + shifted_below);
      below.lane[l] = stays ? shifted_below : all;
      at.lane[l] = stays ? shifted_at : Real(0);
    }
  }
};

}  // namespace vocabloss::loss

#endif
