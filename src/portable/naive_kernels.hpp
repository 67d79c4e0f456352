// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_SRC_PORTABLE_NAIVE_KERNELS_HPP
#define VOCABLOSS_SRC_PORTABLE_NAIVE_KERNELS_HPP

/// \file
/// \brief Kernels of path `naive` that know no loss: one quantity each, matrices in and out.

#include "naive_blas.hpp"

#include <vocabloss/impl/naive/naive_ranks.hpp>
#include <vocabloss/impl/naive/naive_workspace.hpp>
#include <vocabloss/impl/row_call.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <limits>

namespace vocabloss::Impl {

/// What every kernel of one call needs.
template <class Real, class Exec>
struct NaiveStep {
  Exec exec;
  NaiveFormula<Real> formula;
  RowCall<Real> call;
  NaiveWorkspace<Real> work;
  const NaiveRanks<Real>* ranks = nullptr;  ///< null: one rank

  std::int64_t elements() const { return call.rows * work.padded; }
};

/// body(i, j) for every row and every column, padding included: a team a row, so that neighbouring threads touch
/// neighbouring columns.
template <class Real, class Exec, class Body>
void for_elements(const NaiveStep<Real, Exec>& step, const char* label, const Body& body) {
  using Policy = Kokkos::TeamPolicy<Exec>;
  const int columns = static_cast<int>(step.work.padded);
  Kokkos::parallel_for(
      label, Policy(step.exec, static_cast<int>(step.call.rows), Kokkos::AUTO),
      KOKKOS_LAMBDA(const typename Policy::member_type& team) {
        const std::int64_t i = team.league_rank();
        Kokkos::parallel_for(Kokkos::TeamVectorRange(team, columns), [&](const int j) { body(i, j); });
      });
}

template <class Real, class Exec, class Body>
void for_rows(const NaiveStep<Real, Exec>& step, const char* label, const Body& body) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(step.exec, 0, step.call.rows),
                       body);
}

/// to[i][j] = from[i][j] as Real; 0 in the padding and in masked rows, of which nothing is looked at.
template <class T, class Real, class Exec>
void convert_from(const NaiveStep<Real, Exec>& step, const Stream& from, Real* to) {
  using Policy = Kokkos::TeamPolicy<Exec>;
  const RowCall<Real> call = step.call;
  const int padded = static_cast<int>(step.work.padded);
  Kokkos::parallel_for(
      "VocabLoss::naive::convert", Policy(step.exec, static_cast<int>(call.rows), Kokkos::AUTO),
      KOKKOS_LAMBDA(const typename Policy::member_type& team) {
        const std::int64_t i = team.league_rank();
        const int columns = row_facts(call, i).status == RowStatus::masked ? 0 : call.columns;
        const T* row = from.template row<T>(i);
        Real* target = to + i * padded;
        Kokkos::parallel_for(Kokkos::TeamVectorRange(team, padded), [&](const int j) {
          target[j] = j < columns ? static_cast<Real>(widen(row[j])) : Real(0);
        });
      });
}

template <class Real, class Exec>
void convert(const NaiveStep<Real, Exec>& step, const Stream& from, Real* to) {
  if constexpr (std::is_same_v<Real, double>) {
    if (from.type == DataType::fp64) return convert_from<double>(step, from, to);
  } else {
    if (from.type == DataType::bf16) return convert_from<bfloat16>(step, from, to);
    if (from.type == DataType::fp16) return convert_from<float16>(step, from, to);
  }
  convert_from<float>(step, from, to);
}

/// maxima[i] = max over j of matrix[i][j], of the columns without the padding, of all ranks.
template <class Real, class Exec>
void row_maxima(const NaiveStep<Real, Exec>& step, const Real* matrix, Real* maxima) {
  using Policy = Kokkos::TeamPolicy<Exec>;
  const std::int64_t padded = step.work.padded;
  const int columns = step.call.columns;
  Kokkos::parallel_for(
      "VocabLoss::naive::row_maxima", Policy(step.exec, static_cast<int>(step.call.rows), Kokkos::AUTO),
      KOKKOS_LAMBDA(const typename Policy::member_type& team) {
        const std::int64_t i = team.league_rank();
        const Real* row = matrix + i * padded;
        Real maximum;
        Kokkos::parallel_reduce(
            Kokkos::TeamVectorRange(team, columns),
            [&](const int j, Real& largest) { largest = row[j] > largest ? row[j] : largest; },
            Kokkos::Max<Real>(maximum));
        Kokkos::single(Kokkos::PerTeam(team), [&] { maxima[i] = maximum; });
      });
  if (step.ranks) step.ranks->maximum(maxima, step.call.rows);
}

/// sums[i] = sum over j of matrix[i][j], padding (zeros) included, of all ranks.
template <class Real, class Exec>
void row_sums(const NaiveStep<Real, Exec>& step, const Real* matrix, Real* sums) {
  const NaiveWorkspace<Real>& work = step.work;
  const std::int64_t rows = step.call.rows;
  blas_row_sums(step.exec, matrix, rows * work.blocks, work.block_columns, work.ones, work.block_sums);
  blas_row_sums(step.exec, static_cast<const Real*>(work.block_sums), rows, work.blocks, work.ones, sums);
  if (step.ranks) step.ranks->sum(sums, rows);
}

/// matrix[i][j] *= factors[i]
template <class Real, class Exec>
void scale_rows(const NaiveStep<Real, Exec>& step, Real* matrix, const Real* factors) {
  const std::int64_t padded = step.work.padded;
  for_elements(
      step, "VocabLoss::naive::scale_rows",
      KOKKOS_LAMBDA(const std::int64_t i, const int j) { matrix[i * padded + j] *= factors[i]; });
}

/// to = from
template <class Real, class Exec>
void copy(const NaiveStep<Real, Exec>& step, const Real* from, Real* to) {
  const std::int64_t padded = step.work.padded;
  for_elements(
      step, "VocabLoss::naive::copy",
      KOKKOS_LAMBDA(const std::int64_t i, const int j) { to[i * padded + j] = from[i * padded + j]; });
}

/// to = weight * (a - b + shifts[i]), with terms of weight 0 being 0. Null b and null shifts are left out.
template <class Real, class Exec>
void weighted_difference(const NaiveStep<Real, Exec>& step, const Real* weight, const Real* a, const Real* b,
                         const Real* shifts, Real shift_sign, Real* to) {
  const std::int64_t padded = step.work.padded;
  const int columns = step.call.columns;
  for_elements(
      step, "VocabLoss::naive::weighted_difference", KOKKOS_LAMBDA(const std::int64_t i, const int j) {
        const std::int64_t k = i * padded + j;
        Real factor = b ? a[k] - b[k] : a[k];
        if (shifts) factor += shift_sign * shifts[i];
        to[k] = j < columns ? loss::weighted(weight[k], factor) : Real(0);
      });
}

/// The gradient, rounded once: stored over what was there or added to it. Masked rows: 0, or left alone.
template <class T, class Real, class Exec>
void store_gradient_as(const NaiveStep<Real, Exec>& step, const Real* matrix) {
  using Policy = Kokkos::TeamPolicy<Exec>;
  const RowCall<Real> call = step.call;
  const std::int64_t padded = step.work.padded;
  Kokkos::parallel_for(
      "VocabLoss::naive::store_gradient", Policy(step.exec, static_cast<int>(call.rows), Kokkos::AUTO),
      KOKKOS_LAMBDA(const typename Policy::member_type& team) {
        const std::int64_t i = team.league_rank();
        const bool masked = row_facts(call, i).status == RowStatus::masked;
        if (masked && call.gradient.accumulate) return;
        const Real* from = matrix + i * padded;
        T* to = call.gradient.template row<T>(i);
        Kokkos::parallel_for(Kokkos::TeamVectorRange(team, call.columns), [&](const int j) {
          Real value = masked ? Real(0) : from[j];
          if (call.gradient.accumulate) value += static_cast<Real>(widen(to[j]));
          to[j] = narrow<T>(value);
        });
      });
}

template <class Real, class Exec>
void store_gradient(const NaiveStep<Real, Exec>& step, const Real* matrix) {
  const DataType type = step.call.gradient.type;
  if constexpr (std::is_same_v<Real, double>) {
    if (type == DataType::fp64) return store_gradient_as<double>(step, matrix);
  } else {
    if (type == DataType::bf16) return store_gradient_as<bfloat16>(step, matrix);
    if (type == DataType::fp16) return store_gradient_as<float16>(step, matrix);
  }
  store_gradient_as<float>(step, matrix);
}

}  // namespace vocabloss::Impl

#endif
