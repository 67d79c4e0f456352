// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_SRC_PORTABLE_NAIVE_BLAS_HPP
#define VOCABLOSS_SRC_PORTABLE_NAIVE_BLAS_HPP

/// \file
/// \brief The BLAS calls of path `naive`: Kokkos Kernels compiles slowly, so that only naive_blas.cpp includes it.

#include <cstdint>

namespace vocabloss::Impl {

/// sums[i] = sum of matrix[i][0 .. columns), rows contiguous. `ones` holds at least `columns` ones.
template <class Real, class Exec>
void blas_row_sums(const Exec& exec, const Real* matrix, std::int64_t rows, std::int64_t columns, const Real* ones,
                   Real* sums);

/// values *= factor
template <class Real, class Exec>
void blas_scale(const Exec& exec, Real* values, std::int64_t count, Real factor);

/// values -= what
template <class Real, class Exec>
void blas_subtract(const Exec& exec, Real* values, const Real* what, std::int64_t count);

}  // namespace vocabloss::Impl

#endif
