// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_TIMING_HPP
#define ENTROPY_SWEEP_TIMING_HPP

/// \file
/// A case and the streaming kernels timed in turns in one loop, by device events where there are any: a machine that
/// slows down slows both.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>
#include <vocabloss/impl/stream/share_of_stream.hpp>

#include "case_status.hpp"
#include "ranks.hpp"
#include "report.hpp"

namespace entropy_sweep {

struct Timings {
  Milliseconds ours{};
  std::optional<double> share_of_stream{};
};

/// Calls `call` at least `repeat` times, each after `prepare` (not timed) and a flush of the cache, and followed by
/// every streaming kernel of `problem`. The share needs 9 turns, which are added to fewer repeats as long as they take
/// no more than some 20 seconds. `ours` counts the first `repeat` turns. With `back_to_back` above 1 a turn is so many
/// calls in a row, and its time their mean. Collective: all ranks take the same turns, after meeting before each, and a
/// time is the slowest rank's.
template <class Exec, class Call, class Prepare>
Timings time_in_turns(const Ranks& ranks, const Exec& exec, const Call& call, const Prepare& prepare,
                      const vocabloss::Impl::StreamProblem& problem, int repeat, int back_to_back = 1) {
  using vocabloss::Impl::StreamShare;
  constexpr std::size_t turns_for_share = StreamShare::fewest_alternations;
  constexpr double most_seconds_for_share = 20;
  vocabloss::Impl::TurnOptions options;
  options.back_to_back = back_to_back;
  if (ranks.size() > 1) {
    options.meet = [&] { ranks.meet(); };
    options.slowest = [&](double milliseconds) { return ranks.largest(milliseconds); };
  }
  const bool is_small = ranks.largest(static_cast<double>(problem.bytes())) < (1 << 20);
  const std::size_t flush_bytes = is_small ? 0 : 2 * vocabloss::Impl::last_level_cache_bytes(exec);
  std::optional<vocabloss::Impl::AlternatingTimer<Exec>> timer;
  in_step(ranks, [&] {
    timer.emplace(exec, flush_bytes, options);
    timer->warm_up([] {}, problem, 1);  // the call itself is warm by now
  });
  std::vector<double> ours;
  const auto begin = std::chrono::steady_clock::now();
  const auto enough = [&] {
    if (ours.size() < static_cast<std::size_t>(repeat)) return false;
    if (ours.size() >= turns_for_share) return true;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return ranks.largest(seconds) > most_seconds_for_share;
  };
  while (!enough()) ours.push_back(timer->turn(call, problem, prepare));

  Timings timings;
  const vocabloss::Impl::Spread spread = vocabloss::Impl::spread_of({ours.begin(), ours.begin() + repeat});
  timings.ours = {spread.median, spread.min, spread.max};
  const StreamShare share = timer->result();
  if (ours.size() >= turns_for_share && share.share > 0) timings.share_of_stream = share.share;
  return timings;
}

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_TIMING_HPP
