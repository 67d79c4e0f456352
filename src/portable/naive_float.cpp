// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#include "naive_losses.hpp"

namespace vocabloss::Impl {

#if defined(KOKKOS_ENABLE_SERIAL)
template void run_naive<float, Kokkos::Serial>(const Kokkos::Serial&, const NaiveFormula<float>&, const RowCall<float>&,
                                               Pass, void*, const NaiveRanks<float>*);
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template void run_naive<float, Kokkos::OpenMP>(const Kokkos::OpenMP&, const NaiveFormula<float>&, const RowCall<float>&,
                                               Pass, void*, const NaiveRanks<float>*);
#endif
#if defined(KOKKOS_ENABLE_CUDA)
template void run_naive<float, Kokkos::Cuda>(const Kokkos::Cuda&, const NaiveFormula<float>&, const RowCall<float>&,
                                             Pass, void*, const NaiveRanks<float>*);
#endif

}  // namespace vocabloss::Impl
