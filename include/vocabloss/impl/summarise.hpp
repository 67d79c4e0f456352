// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_SUMMARISE_HPP
#define VOCABLOSS_IMPL_SUMMARISE_HPP

/// \file
/// \brief The sums over rows: one team, each thread a fixed set of rows, threads added in a fixed order. No atomics, so
/// the bits repeat.

#include <vocabloss/impl/row_call.hpp>

#include <Kokkos_Core.hpp>

namespace vocabloss {
template <class Real>
struct Summary;
}

namespace vocabloss::Impl {

template <class Real>
struct RowSums {
  double sum[2] = {0, 0};
  std::int64_t valid_rows = 0;
  std::int64_t invalid_labels = 0;

  KOKKOS_INLINE_FUNCTION RowSums& operator+=(const RowSums& other) {
    sum[0] += other.sum[0];
    sum[1] += other.sum[1];
    valid_rows += other.valid_rows;
    invalid_labels += other.invalid_labels;
    return *this;
  }
};

}  // namespace vocabloss::Impl

template <class Real>
struct Kokkos::reduction_identity<vocabloss::Impl::RowSums<Real>> {
  KOKKOS_FORCEINLINE_FUNCTION static vocabloss::Impl::RowSums<Real> sum() { return {}; }
};

namespace vocabloss::Impl {

template <int outputs, class Exec, class Real>
void summarise(const Exec& exec, const RowCall<Real>& call, Real divisor, Summary<Real>* summary) {
  // Light weight: see portable/team_kernel.hpp.
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::Experimental::WorkItemProperty::HintLightWeight_t>;
  Policy policy(exec, 1, Kokkos::AUTO);
  Kokkos::parallel_for(
      "VocabLoss::summary", policy, KOKKOS_LAMBDA(const typename Policy::member_type& team) {
        RowSums<Real> total;
        Kokkos::parallel_reduce(
            Kokkos::TeamThreadRange(team, call.rows),
            [&](const std::int64_t i, RowSums<Real>& part) {
              const RowFacts<Real> facts = row_facts(call, i);
              if (facts.status == RowStatus::masked) return;
              part.valid_rows += 1;
              part.invalid_labels += facts.status == RowStatus::poisoned ? 1 : 0;
              for (int output = 0; output < outputs; ++output) {
                part.sum[output] += static_cast<double>(call.losses[output][i * call.losses_stride[output]]);
              }
            },
            Kokkos::Sum<RowSums<Real>>(total));
        Kokkos::single(Kokkos::PerTeam(team), [&] {
          *summary = {{static_cast<Real>(total.sum[0] / divisor), static_cast<Real>(total.sum[1] / divisor)},
                      total.valid_rows,
                      total.invalid_labels};
        });
      });
}

}  // namespace vocabloss::Impl

#endif
