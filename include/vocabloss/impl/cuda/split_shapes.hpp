// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_SPLIT_SHAPES_HPP
#define VOCABLOSS_IMPL_CUDA_SPLIT_SHAPES_HPP

/// \file
/// \brief Over how many blocks path `split` cuts a row. Plain arithmetic, testable without a device.

#include <vocabloss/types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace vocabloss::Impl {

inline constexpr int split_threads = 256;
/// Blocks that share a multiprocessor: while one waits for its group the other streams. Against one block of 512
/// threads: reverse KL 64 x 524288 106 us for 109, 64 x 2097152 409 for 419, 1 x 32768 5.9 for 6.5; 131 x 131072 57.1
/// for 55.8 (H100, 2026-11).
inline constexpr int split_blocks = 2;
/// Of a loss. Two rounds need a few registers more than two blocks leave each thread (128), so they get one block.
template <class Loss>
inline constexpr int split_blocks_of = Loss::rounds == 2 ? 1 : split_blocks;
/// Shared memory of a block that holds pieces of rows: 224 of 227 KiB of a multiprocessor, the rest serves merging.
inline constexpr int split_ring_bytes = 224 * 1024 / split_blocks;

/// Vectors of 16 bytes that a thread takes of each stream in one stage, in which the state is rescaled once: 4 in all,
/// so that a ring holds 7 stages. With 2 in all, reverse KL 64 x 524288 took 111 us for 106.
constexpr int split_vectors(int streams) { return 4 / streams; }
constexpr int split_stage_bytes(int streams) { return streams * split_vectors(streams) * split_threads * 16; }
constexpr int split_stages(int streams) { return split_ring_bytes / split_stage_bytes(streams); }

/// The launch: `groups` rows at a time, each over `group` blocks.
struct SplitShape {
  int group = 1;
  int groups = 1;
  int blocks_at_most = 1;  ///< of any launch on this device: sizes the workspace

  int blocks() const { return group * groups; }
  std::string describe() const { return "group=" + std::to_string(group) + " groups=" + std::to_string(groups); }
};

/// \brief Estimated microseconds of a launch on `blocks` resident blocks that cuts each row over `group` of them.
///
/// A model, of which only the order of its values counts. Its constants were fitted to a sweep over 20 group sizes of
/// 24 shapes (cross-entropy and reverse KL, bf16, forward + backward, 1 x 32768 to 64 x 2097152, H100, 2026-11): the
/// group of least estimated cost took at most 4 % longer than the best of each sweep.
inline double split_cost(std::int64_t rows, std::int64_t columns, int streams, DataType type, int blocks, int group) {
  constexpr double device_bytes = 2.6e6;                  // a microsecond
  constexpr double cache_bytes = 35e6;                    // what a second read finds in 50 MB of L2
  constexpr double cached = 0.35;                         // cost of a byte found there
  constexpr double column_time[2] = {0.214e-3, 0.36e-3};  // of a block alone, by streams
  constexpr double shared_multiprocessor = 1.8;           // the same where two blocks share one
  const double bytes_of_column = static_cast<double>(size_of(type));
  const std::int64_t groups = std::min<std::int64_t>(rows, blocks / group);
  const std::int64_t waves = (rows + groups - 1) / groups;
  const std::int64_t slice = (columns + group - 1) / group;
  const std::int64_t step = split_threads * (16 / size_of(type));  // threads take whole vectors
  const std::int64_t columns_of_block = std::min((slice + step - 1) / step * step, columns);
  const bool is_shared = groups * group > blocks / split_blocks;
  const double compute =
      static_cast<double>(columns_of_block) * column_time[streams - 1] * (is_shared ? shared_multiprocessor : 1.0);
  const double in = static_cast<double>(slice) * bytes_of_column * streams;
  const double again = std::max(0.0, in - split_ring_bytes);
  const bool fits_cache = static_cast<double>(groups * columns) * bytes_of_column * streams < cache_bytes;
  const double moved = in + static_cast<double>(slice) * bytes_of_column + again * (fits_cache ? cached : 1.0);
  const double exchange = group == 1 ? 0.0 : 1.5 + 0.015 * group;
  const double memory = static_cast<double>(groups * group) * moved / device_bytes;
  return static_cast<double>(waves) * (1.0 + exchange + std::max(compute, memory));
}

/// \brief The group size of least estimated cost. Columns are this rank's, `sm_count` the device's multiprocessors.
///
/// Looked at: the largest group for each number of groups, and powers of two; some forty in all.
inline SplitShape choose_split_shape(std::int64_t rows, std::int64_t columns, int streams, DataType type, int sm_count,
                                     int blocks_each = split_blocks) {
  const int blocks = std::max(1, sm_count) * blocks_each;
  SplitShape best{1, 1, blocks};
  if (rows <= 0 || columns <= 0) return best;
  double least = split_cost(rows, columns, streams, type, blocks, 1);
  const auto look_at = [&](int group) {
    const double cost = split_cost(rows, columns, streams, type, blocks, group);
    if (cost > least || (cost == least && group > best.group)) return;
    least = cost;
    best.group = group;
  };
  const int most = std::min(blocks, split_threads);  // a thread of a block polls for each block of its group
  for (int group = 2; group <= most; group *= 2) look_at(group);
  for (int groups = 1, last = 0; groups < blocks; ++groups) {
    const int group = blocks / groups;
    if (group != last && group <= most) look_at(group);
    last = group;
  }
  best.groups = static_cast<int>(std::min<std::int64_t>(rows, blocks / best.group));
  return best;
}

/// Where the parts of a workspace begin: a header, a number a block, and the words that blocks post, at most
/// `state_words` floats of a state each beside the number of its exchange, twice.
constexpr std::size_t split_header_bytes = 128;
constexpr std::size_t split_words_offset(const SplitShape& shape) {
  return split_header_bytes + (static_cast<std::size_t>(shape.blocks_at_most) * 4 + 127) / 128 * 128;
}
constexpr std::size_t split_workspace_bytes(std::size_t state_words, const SplitShape& shape) {
  return split_words_offset(shape) + 2 * state_words * 8 * static_cast<std::size_t>(shape.blocks_at_most);
}

}  // namespace vocabloss::Impl

#endif
