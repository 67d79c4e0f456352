// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_TUNING_CLUSTER_SHAPE_HPP
#define VOCABLOSS_TUNING_CLUSTER_SHAPE_HPP

/// \file
/// \brief The launch choices of path `cluster` as plain data, and what fits them. Which row gets which:
/// impl/cuda/cluster_shapes.hpp.

#include <vocabloss/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace vocabloss {
namespace Impl {

/// Shared memory of a block when `blocks` share a multiprocessor: 228 KiB less 1 KiB that the system takes of each.
constexpr int cluster_shared_bytes(int blocks) { return 228 * 1024 / blocks - 1024; }
/// Of it, for everything but the ring of slots.
inline constexpr int cluster_control_bytes = 12 * 1024;

}  // namespace Impl

/// How a row goes into the ring of each block of a cluster: see impl/cuda/row_layout.hpp.
struct ClusterCut {
  std::int64_t slice_vectors;  ///< of a block
  std::int64_t pieces;         ///< of a slice
  int slot_vectors;            ///< that a slot has room for, of each stream
  int slots;
};

/// The launch choices of path `cluster`. A full piece of a row is threads * vectors vectors of 16 bytes of each stream.
/// As it stands every loss has a kernel of it.
struct ClusterShape {
  int threads = 512;  ///< consumers that a block has for a row
  int vectors = 2;    ///< that a thread takes from a full piece
  int blocks = 1;     ///< that share a multiprocessor
  int width = 1;      ///< blocks of a cluster, over which a row is cut
  int ahead = 0;      ///< pieces of the next row that are summed before the gradient of this one; at most a whole row
  int groups = 1;     ///< rows that a block takes at once, each with `threads` consumers of its own

  bool operator==(const ClusterShape&) const = default;

  constexpr int piece_vectors() const { return threads * vectors; }

  /// A slot's part for one stream: a granule more than the piece, since a stream may start at another offset than the
  /// logits, and then up to the next 128 bytes: off them the copy engine is 2 % slower.
  static constexpr int region_bytes(int slot_vectors) { return slot_vectors * 16 + 128; }

  /// Of a row of so many vectors, with `ring_bytes` of shared memory for slots. A last piece of a few vectors would
  /// cost nearly what a full one costs, so it joins the one before it, and slots are that much larger.
  constexpr ClusterCut cut(std::int64_t vectors_of_row, int streams, int ring_bytes) const {
    const auto slots_of = [&](int vectors_of_slot) {
      const int count = ring_bytes / (streams * region_bytes(vectors_of_slot));
      return count < 64 ? count : 64;
    };
    const int full = piece_vectors();
    const std::int64_t slice = (vectors_of_row + width - 1) / width;
    const std::int64_t pieces = slice <= full ? 1 : (slice + full - 1) / full;
    const int tail = static_cast<int>(slice % full);
    const int with_tail = full + (tail + 31) / 32 * 32;
    if (pieces > 1 && tail > 0 && tail <= full / 4 && pieces - 1 < slots_of(with_tail)) {
      return {slice, pieces - 1, with_tail, slots_of(with_tail)};
    }
    return {slice, pieces, full, slots_of(full)};
  }
  /// Whether each group's row fits the ring beside the others', and a row leaves a slot to load into.
  constexpr bool holds(std::int64_t vectors_of_row, int streams) const {
    const ClusterCut row =
        cut(vectors_of_row, streams, Impl::cluster_shared_bytes(blocks) - Impl::cluster_control_bytes);
    return row.pieces < row.slots && groups * row.pieces <= row.slots;
  }

  std::string describe() const {
    return "width=" + std::to_string(width) + " ahead=" + std::to_string(ahead) +
           " threads=" + std::to_string(threads) + " vectors=" + std::to_string(vectors) +
           " blocks=" + std::to_string(blocks) + (groups == 1 ? "" : " groups=" + std::to_string(groups));
  }

  /// From what `describe` says. \throws InvalidArgument  with the text and the form it should have
  static ClusterShape parse(const std::string& text) {
    ClusterShape shape;
    int without_groups = 0, with_groups = 0;  // characters read
    std::sscanf(text.c_str(), "width=%d ahead=%d threads=%d vectors=%d blocks=%d%n groups=%d%n", &shape.width,
                &shape.ahead, &shape.threads, &shape.vectors, &shape.blocks, &without_groups, &shape.groups,
                &with_groups);
    const auto end = static_cast<std::size_t>(with_groups > 0 ? with_groups : without_groups);
    const bool is_width = shape.width == 1 || shape.width == 2 || shape.width == 4 || shape.width == 8;
    const bool are_counts = shape.threads > 0 && shape.vectors > 0 && shape.blocks > 0 && shape.groups > 0;
    Impl::expects(end > 0 && end == text.size() && is_width && are_counts && shape.ahead >= 0, [&] {
      return "variant of path cluster is \"" + text + "\": it must read like \"" + ClusterShape{}.describe() +
             "\", with a width of 1, 2, 4 or 8 and 0 or more pieces ahead; \" groups=2\" follows if a block takes two "
             "rows at once";
    });
    return shape;
  }
};

}  // namespace vocabloss

#endif
