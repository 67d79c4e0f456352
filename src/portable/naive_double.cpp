// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#include "naive_losses.hpp"

namespace vocabloss::Impl {

#if defined(KOKKOS_ENABLE_SERIAL)
template void run_naive<double, Kokkos::Serial>(const Kokkos::Serial&, const NaiveFormula<double>&,
                                                const RowCall<double>&, Pass, void*, const NaiveRanks<double>*);
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template void run_naive<double, Kokkos::OpenMP>(const Kokkos::OpenMP&, const NaiveFormula<double>&,
                                                const RowCall<double>&, Pass, void*, const NaiveRanks<double>*);
#endif
#if defined(KOKKOS_ENABLE_CUDA)
template void run_naive<double, Kokkos::Cuda>(const Kokkos::Cuda&, const NaiveFormula<double>&, const RowCall<double>&,
                                              Pass, void*, const NaiveRanks<double>*);
#endif

}  // namespace vocabloss::Impl
