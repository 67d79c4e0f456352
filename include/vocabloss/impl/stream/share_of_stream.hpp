// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_STREAM_SHARE_OF_STREAM_HPP
#define VOCABLOSS_IMPL_STREAM_SHARE_OF_STREAM_HPP

/// \file
/// \brief share_of_stream: how near a call comes to a kernel that only moves the same data.
///
///     share_of_stream = median over at least 9 alternations of (stream time / our time)
///
/// One loop alternates the call with every variant of the streaming kernel, each after the same flush of the cache, so
/// that a slow moment of the machine hits both. The best variant of that loop (by its median) is the one compared with.
/// 1 means: as fast as the memory allows; above 1 is noise, or a second read served by the cache.
///
/// Between ranks a time is the slowest rank's, of the call and of the stream over its shard alike.
///
///     AlternatingTimer<Exec> timer(exec);
///     timer.warm_up(call, problem);
///     for (int k = 0; k < 20; ++k) timer.turn(call, problem);
///     const StreamShare share = timer.result();

#include <vocabloss/impl/stream/cache_flush.hpp>
#include <vocabloss/impl/stream/stream_kernel.hpp>
#include <vocabloss/impl/stream/timer.hpp>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace vocabloss::Impl {

struct StreamShare {
  static constexpr int fewest_alternations = 9;
  Spread ours_ms;
  Spread stream_ms;      ///< of the best variant
  double share = 0;      ///< NaN-free: 0 where nothing was timed
  std::string variant;   ///< the best: "bulk x1", say
  int alternations = 0;  ///< believe the share from `fewest_alternations` on
};

struct TurnOptions {
  /// A time is the mean of so many launches in a row, with no flush between them: the cache holds what it can.
  int back_to_back = 1;
  /// Between ranks, all of which must make the same turns: returns when all have called it.
  std::function<void()> meet{};
  /// Turns this rank's time into the slowest rank's.
  std::function<double(double)> slowest{};
};

template <class Exec>
class AlternatingTimer {
 public:
  explicit AlternatingTimer(const Exec& exec) : AlternatingTimer(exec, 2 * last_level_cache_bytes(exec)) {}

  AlternatingTimer(const Exec& exec, std::size_t flush_bytes, TurnOptions options = {})
      : exec_(exec),
        timer_(exec),
        flush_(exec, flush_bytes),
        options_(std::move(options)),
        variants_(stream_variants(exec)),
        stream_ms_(variants_.size()) {}

  /// Untimed runs of everything that `turn` times. `call` enqueues on the instance and returns.
  template <class Call>
  void warm_up(Call&& call, const StreamProblem& problem, int times = 2) const {
    for (int k = 0; k < times; ++k) {
      call();
      for (const StreamVariant& variant : variants_) stream(exec_, problem, variant);
    }
    exec_.fence("VocabLoss::warm_up");
  }

  /// One alternation; returns our time in milliseconds. `problem` must not write what `call` reads: in place, give it
  /// another buffer of the same shape.
  template <class Call>
  double turn(Call&& call, const StreamProblem& problem) {
    return turn(call, problem, [] {});
  }
  /// `prepare` is enqueued before the call and not timed: in place, it puts back what the call and the stream
  /// overwrite.
  template <class Call, class Prepare>
  double turn(Call&& call, const StreamProblem& problem, Prepare&& prepare) {
    const auto flush = [&] {
      flush_.enqueue();
      if (!options_.meet) return;
      // On a device the flush hides the meeting; a host has to be through with it.
      if (!streams_on_cuda<Exec>) exec_.fence("VocabLoss::turn");
      options_.meet();
    };
    const auto prepare_and_flush = [&] {
      prepare();
      flush();
    };
    ours_ms_.push_back(time_of(prepare_and_flush, call));
    for (std::size_t v = 0; v < variants_.size(); ++v) {
      stream_ms_[v].push_back(time_of(flush, [&] { stream(exec_, problem, variants_[v]); }));
    }
    return ours_ms_.back();
  }

  StreamShare result() const {
    StreamShare result;
    result.alternations = static_cast<int>(ours_ms_.size());
    if (ours_ms_.empty()) return result;
    result.ours_ms = spread_of(ours_ms_);
    std::size_t best = 0;
    for (std::size_t v = 1; v < variants_.size(); ++v) {
      if (spread_of(stream_ms_[v]).median < spread_of(stream_ms_[best]).median) best = v;
    }
    result.stream_ms = spread_of(stream_ms_[best]);
    result.variant = variants_[best].name();
    std::vector<double> ratios;
    for (std::size_t k = 0; k < ours_ms_.size(); ++k) {
      ratios.push_back(ours_ms_[k] > 0 ? stream_ms_[best][k] / ours_ms_[k] : 0);
    }
    result.share = spread_of(ratios).median;
    return result;
  }

 private:
  template <class Before, class Work>
  double time_of(Before&& before, Work&& work) const {
    const double all = timer_.milliseconds(before, [&] {
      for (int k = 0; k < options_.back_to_back; ++k) work();
    });
    const double one = all / options_.back_to_back;
    return options_.slowest ? options_.slowest(one) : one;
  }

  Exec exec_;
  DeviceTimer<Exec> timer_;
  CacheFlush<Exec> flush_;
  TurnOptions options_;
  std::vector<StreamVariant> variants_;
  std::vector<double> ours_ms_;
  std::vector<std::vector<double>> stream_ms_;
};

}  // namespace vocabloss::Impl

#endif
