// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_LOSS_PACK_HPP
#define VOCABLOSS_LOSS_PACK_HPP

/// \file
/// \brief What a loss algebra sees of a row: some neighbouring columns in registers, and the facts of the row.
///
/// No Views, no pointers, no Kokkos beyond its function macro: the same code runs in a raw CUDA kernel, in a Kokkos
/// functor and in a host loop. Read next: loss/concept.hpp.

#include <Kokkos_Macros.hpp>

/// Before a loop over lanes that must become vector code on a CPU. GCC unrolls short loops early and then finds only
/// part of the vectors in what is left: this keeps them loops until its vectoriser has seen them.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define VOCABLOSS_VECTOR_LOOP _Pragma("GCC unroll 1")
#else
#define VOCABLOSS_VECTOR_LOOP
#endif

namespace vocabloss::loss {

/// N values in registers. Loops over the lanes have constant bounds: they unroll on a GPU and vectorise on a CPU.
template <class Real, int N>
struct Pack {
  Real lane[N];
};

/// N neighbouring columns: the logits x, the second stream t (teacher logits or probabilities; unset and unread where
/// the loss has one stream), and the index of the first of them counted from the start of this rank's shard.
template <class Real, int N>
struct Columns {
  Pack<Real, N> x;
  Pack<Real, N> t;
  int first;
};

/// The facts of a row that an algebra may need.
template <class Real>
struct Row {
  /// Column of the label counted from the start of this rank's shard; negative where this shard does not hold it, and
  /// then no column that `accumulate` or `gradient` is given.
  int label;
  /// dL/dloss of each output, with row weight, divisor and factors already multiplied in.
  Real upstream[2];
};

/// Sums kept in `Lanes` independent partial sums: 1 where registers are dear, a vector's width on a CPU, where a single
/// running sum would serialise.
template <class Real, int Lanes>
struct LaneSum {
  Real lane[Lanes];

  KOKKOS_INLINE_FUNCTION static LaneSum zero() {
    LaneSum sum;
    for (int l = 0; l < Lanes; ++l) sum.lane[l] = Real(0);
    return sum;
  }
  KOKKOS_INLINE_FUNCTION void scale(Real factor) {
    VOCABLOSS_VECTOR_LOOP
    for (int l = 0; l < Lanes; ++l) lane[l] *= factor;
  }
  KOKKOS_INLINE_FUNCTION void add(const LaneSum& other) {
    VOCABLOSS_VECTOR_LOOP
    for (int l = 0; l < Lanes; ++l) lane[l] += other.lane[l];
  }
  /// Pairwise, in a fixed order.
  KOKKOS_INLINE_FUNCTION LaneSum<Real, 1> total() const {
    Real part[Lanes];
    for (int l = 0; l < Lanes; ++l) part[l] = lane[l];
    for (int half = Lanes / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) part[l] += part[l + half];
    }
    return {{part[0]}};
  }
};

/// A single running sum, readable as a number.
template <class Real>
struct LaneSum<Real, 1> {
  Real lane[1];

  KOKKOS_INLINE_FUNCTION static LaneSum zero() { return {{Real(0)}}; }
  KOKKOS_INLINE_FUNCTION void scale(Real factor) { lane[0] *= factor; }
  KOKKOS_INLINE_FUNCTION void add(const LaneSum& other) { lane[0] += other.lane[0]; }
  KOKKOS_INLINE_FUNCTION LaneSum total() const { return *this; }
  KOKKOS_INLINE_FUNCTION Real value() const { return lane[0]; }
};

/// The larger of two; which one it is when either is NaN does not matter, since the sums carry NaN.
template <class Real>
KOKKOS_INLINE_FUNCTION Real larger(Real a, Real b) {
  return a > b ? a : b;
}

#if defined(__CUDA_ARCH__)
template <>
KOKKOS_INLINE_FUNCTION float larger<float>(float a, float b) {
  return ::fmaxf(a, b);
}
#endif

/// The largest lane, found pairwise so that lanes are compared side by side.
template <class Real, int N>
KOKKOS_INLINE_FUNCTION Real largest(const Pack<Real, N>& pack) {
  Real part[N];
  for (int l = 0; l < N; ++l) part[l] = pack.lane[l];
  for (int count = N; count > 1;) {
    const int rest = count - count / 2;
    for (int l = 0; l < count / 2; ++l) part[l] = larger(part[l], part[l + rest]);
    count = rest;
  }
  return part[0];
}

}  // namespace vocabloss::loss

#endif
