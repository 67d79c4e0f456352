// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_COMM_PARTITION_HPP
#define VOCABLOSS_COMM_PARTITION_HPP

/// \file
/// \brief Which columns of the vocabulary a rank holds.

#include <vocabloss/error.hpp>

#include <cstdint>
#include <string>

namespace vocabloss {

/// The columns [first, first + columns) of a vocabulary of `vocab` columns. A shard may be empty or hold one column.
struct VocabPartition {
  std::int64_t vocab = 0;
  std::int64_t first = 0;
  std::int64_t columns = 0;

  /// All columns on one rank.
  static VocabPartition whole(std::int64_t vocab) { return {vocab, 0, vocab}; }

  /// The shard of `rank` when the vocabulary is split as evenly as it goes: the first `vocab % ranks` ranks hold one
  /// column more.
  static VocabPartition even(std::int64_t vocab, int ranks, int rank) {
    const std::int64_t each = vocab / ranks;
    const std::int64_t more = vocab % ranks;
    return {vocab, rank * each + (rank < more ? rank : more), each + (rank < more ? 1 : 0)};
  }

  bool is_whole() const { return first == 0 && columns == vocab; }

  /// Throws InvalidArgument unless 0 <= first, 0 <= columns and first + columns <= vocab, with vocab >= 1.
  void validate() const {
    Impl::expects(vocab >= 1 && first >= 0 && columns >= 0 && columns <= vocab - first, [&] {
      return "partition [first, first + columns) must lie within [0, vocab) with vocab >= 1, got first " +
             std::to_string(first) + ", columns " + std::to_string(columns) + ", vocab " + std::to_string(vocab);
    });
  }

  bool operator==(const VocabPartition&) const = default;
};

}  // namespace vocabloss

#endif
