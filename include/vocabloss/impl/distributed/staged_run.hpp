// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_STAGED_RUN_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_STAGED_RUN_HPP

/// \file
/// \brief A call over a shared vocabulary: blocks of rows through stages, with an exchange between two stages.
///
/// Without overlap a block goes through all stages before the next one starts, so that its second read finds it in a
/// cache. With overlap, block b is at stage s while block b + 1 is at stage s - 1: for one round,
///     instance   P0  P1  F0  P2  F1  P3  F2  F3        P: partial states, F: finish and gradient
///     exchange       G0  G1      G2      G3

#include <vocabloss/impl/distributed/row_slice.hpp>
#include <vocabloss/impl/distributed/stages.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace vocabloss::Impl {

template <class Loss, class Logit, class Exec, class Exchange>
class StagedRun {
 public:
  using Real = typename Loss::Real;

  StagedRun(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, const LaunchPlan& plan,
            const Stages<Loss, Logit, Exec>& stages, Exchange& exchange)
      : exec_(exec), loss_(loss), call_(call), pass_(pass), plan_(plan), stages_(stages), exchange_(exchange) {}

  /// Where an exchange throws, the rows that are not finished become NaN, and the error goes on to the caller.
  void run() {
    const std::int64_t blocks = (call_.rows + plan_.block_rows - 1) / plan_.block_rows;
    try {
      for (std::int64_t step = 0; step < blocks + lag; ++step) {
        if constexpr (Exchange::overlaps) {
          stage_of<0>(step, blocks);
          stage_of<1>(step - 1, blocks);
          if constexpr (Loss::rounds == 2) stage_of<2>(step - 2, blocks);
        } else {
          stage_of<0>(step, blocks);
          stage_of<1>(step, blocks);
          if constexpr (Loss::rounds == 2) stage_of<2>(step, blocks);
        }
      }
    } catch (...) {
      const std::int64_t first = std::min(finished_ * plan_.block_rows, call_.rows);
      stages_.poison(exec_, loss_, slice_rows(call_, first, call_.rows - first, words), pass_);
      throw;
    }
  }

 private:
  static constexpr int lag = Exchange::overlaps ? Loss::rounds : 0;
  static constexpr int words = sizeof(typename Loss::Statistics) / sizeof(Real);

  RowCall<Real> rows_of(std::int64_t block) const {
    const std::int64_t first = block * plan_.block_rows;
    return slice_rows(call_, first, std::min(plan_.block_rows, call_.rows - first), words);
  }

  template <int Stage>
  void stage_of(std::int64_t block, std::int64_t blocks) {
    if (block < 0 || block >= blocks) return;
    const RowCall<Real> rows = rows_of(block);
    const int slot = static_cast<int>(block % Exchange::slots);
    if constexpr (Stage > 0) exchange_.join(exec_, slot);
    if constexpr (Stage < Loss::rounds) {
      exchange_.template start<Stage>(exec_, loss_, rows, pass_, slot);
    } else {
      stages_.template run<Stage>(exec_, loss_, rows, pass_, exchange_.merged(rows, slot), nullptr);
      finished_ = block + 1;
    }
  }

  const Exec& exec_;
  const Loss& loss_;
  const RowCall<Real>& call_;
  Pass pass_;
  const LaunchPlan& plan_;
  const Stages<Loss, Logit, Exec>& stages_;
  Exchange& exchange_;
  std::int64_t finished_ = 0;  ///< blocks
};

}  // namespace vocabloss::Impl

#endif
