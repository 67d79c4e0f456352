// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#include "naive_blas.hpp"

#include <KokkosBlas1_axpby.hpp>
#include <KokkosBlas1_scal.hpp>
#include <KokkosBlas2_gemv.hpp>
#include <Kokkos_Core.hpp>

#include <algorithm>

namespace vocabloss::Impl {
namespace {

template <class T, class Exec>
using Vector =
    Kokkos::View<T*, Kokkos::LayoutRight, Kokkos::Device<Exec, typename Exec::memory_space>, Kokkos::MemoryUnmanaged>;
template <class T, class Exec>
using Matrix =
    Kokkos::View<T**, Kokkos::LayoutRight, Kokkos::Device<Exec, typename Exec::memory_space>, Kokkos::MemoryUnmanaged>;

/// Vendor libraries count with int.
constexpr std::int64_t most_at_once = std::int64_t(1) << 30;

template <class Piece>
void in_pieces(std::int64_t count, Piece&& piece) {
  for (std::int64_t first = 0; first < count; first += most_at_once) {
    piece(first, std::min(most_at_once, count - first));
  }
}

}  // namespace

template <class Real, class Exec>
void blas_row_sums(const Exec& exec, const Real* matrix, std::int64_t rows, std::int64_t columns, const Real* ones,
                   Real* sums) {
  in_pieces(rows, [&](std::int64_t first, std::int64_t count) {
    KokkosBlas::gemv(exec, "N", Real(1), Matrix<const Real, Exec>(matrix + first * columns, count, columns),
                     Vector<const Real, Exec>(ones, columns), Real(0), Vector<Real, Exec>(sums + first, count));
  });
}

template <class Real, class Exec>
void blas_scale(const Exec& exec, Real* values, std::int64_t count, Real factor) {
  in_pieces(count, [&](std::int64_t first, std::int64_t length) {
    const Vector<Real, Exec> piece(values + first, length);
    KokkosBlas::scal(exec, piece, factor, piece);
  });
}

template <class Real, class Exec>
void blas_subtract(const Exec& exec, Real* values, const Real* what, std::int64_t count) {
  in_pieces(count, [&](std::int64_t first, std::int64_t length) {
    KokkosBlas::axpby(exec, Real(-1), Vector<const Real, Exec>(what + first, length), Real(1),
                      Vector<Real, Exec>(values + first, length));
  });
}

#define VOCABLOSS_NAIVE_BLAS(Real, Exec)                                                                             \
  template void blas_row_sums<Real, Exec>(const Exec&, const Real*, std::int64_t, std::int64_t, const Real*, Real*); \
  template void blas_scale<Real, Exec>(const Exec&, Real*, std::int64_t, Real);                                      \
  template void blas_subtract<Real, Exec>(const Exec&, Real*, const Real*, std::int64_t)

#if defined(KOKKOS_ENABLE_SERIAL)
VOCABLOSS_NAIVE_BLAS(float, Kokkos::Serial);
VOCABLOSS_NAIVE_BLAS(double, Kokkos::Serial);
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
VOCABLOSS_NAIVE_BLAS(float, Kokkos::OpenMP);
VOCABLOSS_NAIVE_BLAS(double, Kokkos::OpenMP);
#endif
#if defined(KOKKOS_ENABLE_CUDA)
VOCABLOSS_NAIVE_BLAS(float, Kokkos::Cuda);
VOCABLOSS_NAIVE_BLAS(double, Kokkos::Cuda);
#endif

}  // namespace vocabloss::Impl
