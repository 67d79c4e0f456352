// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_TUNING_TUNE_HPP
#define VOCABLOSS_TUNING_TUNE_HPP

/// \file
/// \brief The launch choice of a batch by measurement: every path that can run it, timed through Plan's own calls.
/// Component `tuner`.
///
///     const Tuning tuning = vocabloss::tune<loss::ReverseKl>(exec, batch, Pass::forward_backward);
///     const Plan<loss::ReverseKl, bfloat16> plan(exec, batch, {}, tuning.request);
///
/// Candidates: path `team` at block caps of 1024 to 32768 columns, `cluster` in every shape that holds the row, `split`
/// and `naive`; between ranks, with each exchange that a path has, and `gather`. What a plan refuses is listed with its
/// reason. The choice is the fastest by the median.
///
/// memory       what the call writes once more, and the workspaces of the candidates
/// data         the caller's buffers are read, never written
/// ranks        collective; a time is the slowest rank's, and all choose alike
/// Read next: tuning/record.hpp (how a choice is kept), impl/tuning/tuner.hpp.

#include <vocabloss/impl/tuning/tuner.hpp>
#include <vocabloss/plan.hpp>
#include <vocabloss/tuning/record.hpp>
#include <vocabloss/tuning/tuning.hpp>

namespace vocabloss {

/// The choice for calls of `pass` with batches like `batch` on one rank. Waits.
/// \throws InvalidArgument  as Plan
/// \throws PathRefused      where no candidate runs, with the reasons of all
/// \throws OutOfMemory      no room for private copies
template <template <class> class Loss, class Logit, class Exec>
Tuning tune(const Exec& exec, const Batch<Logit, Exec>& batch, Pass pass,
            const typename Loss<Accumulate<Logit>>::Options& options = {}, const TuneOptions& how = {}) {
  comm::Self self;
  return Impl::Tuner<Loss, Logit, Exec, comm::Self>(exec, self, batch, pass, options, how).run();
}

/// The same for a vocabulary that the ranks of `comm` share. Collective: all ranks give the same arguments, but for
/// their shards; of their records only the first rank's is asked.
template <template <class> class Loss, class Logit, class Exec, class Comm>
Tuning tune(const Exec& exec, Comm& comm, const Batch<Logit, Exec>& batch, Pass pass,
            const typename Loss<Accumulate<Logit>>::Options& options = {}, const TuneOptions& how = {}) {
  return Impl::Tuner<Loss, Logit, Exec, Comm>(exec, comm, batch, pass, options, how).run();
}

}  // namespace vocabloss

#endif
