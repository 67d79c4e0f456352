// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_PORTABLE_TEAM_CHOICE_HPP
#define VOCABLOSS_IMPL_PORTABLE_TEAM_CHOICE_HPP

/// \file
/// \brief How many threads a row gets on path `team` and how many columns they hold at once: the block cap.

#include <vocabloss/tuning/plan.hpp>

#include <algorithm>
#include <cstdint>

namespace vocabloss::Impl {

struct TeamShape {
  int block_cap, team_size;
};

// ---- CPU: a thread a row; the cap is the tile whose second reading comes from the first cache ----

/// Evidence, one core of an EPYC 9004 (32 KiB and 1 MiB a core), 256 x 32768, forward and backward, ms at caps of
/// 512 / 2048 / 4096: reverse KL bf16 12.3 / 11.3 / 11.6; cross-entropy float 8.9 / 7.8 / 7.9 and bf16 9.0 / 8.0 / 7.8.
/// A tile costs one rescaling, so small ones lose; two float streams of 4096 columns fill the first cache.
inline constexpr int host_default_block_cap = 2048;

constexpr TeamShape host_team_shape(int asked, int lanes) {
  const int wanted = asked > 0 ? std::min(asked, 1 << 30) : host_default_block_cap;
  return {(wanted + lanes - 1) / lanes * lanes, 1};
}

// ---- GPU: the cap is team size x columns a thread holds in registers ----

inline constexpr int team_step = 32;

/// Columns a thread of a narrow kernel holds of each stream: two vectors of 16 bytes, so that loads are in flight while
/// others are summed, and a maximum is raised once for both; four of doubles.
constexpr int narrow_columns_per_thread(int bytes_per_logit) { return bytes_per_logit == 2 ? 16 : 8; }

/// Columns a thread holds where the cap is more than narrow teams reach: 256 bytes of registers over the streams, 128
/// of doubles, whose arithmetic takes more registers too.
constexpr int wide_columns_per_thread(int bytes_per_logit, int streams) {
  const int bytes = bytes_per_logit == 8 ? 128 : 256;
  return std::max(narrow_columns_per_thread(bytes_per_logit), std::min(64, bytes / (bytes_per_logit * streams)));
}

/// The largest team whose kernel keeps its registers: 64 each at 1024 threads, 128 at 512. sm_90 showed spills in wide
/// kernels and in those over doubles at 1024, none at 512.
constexpr int largest_team(int columns_per_thread, int bytes_per_logit) {
  return columns_per_thread > narrow_columns_per_thread(bytes_per_logit) || bytes_per_logit == 8 ? 512 : 1024;
}

/// Rows up to `columns` get teams of `team_size`: larger teams mean fewer rows in flight, which is what keeps the
/// second reading in L2. Evidence, one H200, 2026-11-28, reverse KL bf16, 4096 rows, forward + backward, ms by team of
/// 128 / 256 / 512 / 1024: 0.320 / 0.291 / 0.286 / 0.428 at 32768 columns, 0.658 / 0.625 / 0.575 / 0.649 at 65536,
/// 1.341 / 1.321 / 1.210 / 1.253 at 131072.
struct TeamSizeChoice {
  std::int64_t columns;
  int team_size;
};
inline constexpr TeamSizeChoice team_sizes[] = {{4096, 128}, {16384, 256}, {INT64_MAX, 512}};

/// \param wide  wide_columns_per_thread of the kernel
constexpr TeamShape device_team_shape(int asked, std::int64_t columns, int wide, int bytes_per_logit) {
  const auto team_for = [&](std::int64_t cap, int per_thread) {
    const std::int64_t threads = (cap + per_thread - 1) / per_thread;
    return static_cast<int>(std::clamp<std::int64_t>((threads + team_step - 1) / team_step * team_step, team_step,
                                                     largest_team(per_thread, bytes_per_logit)));
  };
  const int narrow = narrow_columns_per_thread(bytes_per_logit);
  if (asked > narrow * largest_team(narrow, bytes_per_logit) && wide > narrow) {
    const int team = team_for(asked, wide);
    return {team * wide, team};
  }
  int team = team_for(asked, narrow);
  if (asked == 0) {
    for (const TeamSizeChoice& choice : team_sizes) {
      team = choice.team_size;
      if (columns <= choice.columns) break;
    }
    team = std::min({team, team_for(columns, narrow), largest_team(narrow, bytes_per_logit)});
  }
  return {team * narrow, team};
}

}  // namespace vocabloss::Impl

#endif
