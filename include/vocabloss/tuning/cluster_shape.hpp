// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_TUNING_CLUSTER_SHAPE_HPP
#define VOCABLOSS_TUNING_CLUSTER_SHAPE_HPP

/// \file
/// \brief The launch choices of path `cluster` as plain data, and what fits them. Which row gets which:
/// impl/cuda/cluster_shapes.hpp.

#include <vocabloss/error.hpp>

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

/// The launch choices of path `cluster`. A slot of the ring holds threads * vectors vectors of 16 bytes of each stream.
struct ClusterShape {
  int threads = 256;  ///< consumers of a block
  int vectors = 2;    ///< that a thread takes from a full slot
  int blocks = 1;     ///< that share a multiprocessor
  int width = 1;      ///< blocks of a cluster, over which a row is cut
  int lag = 0;        ///< rows by which each stage runs ahead of the next

  bool operator==(const ClusterShape&) const = default;

  constexpr int slot_vectors() const { return threads * vectors; }
  constexpr int slots(int streams) const {
    const int bytes = streams * (slot_vectors() * 16 + 128);
    const int count = (Impl::cluster_shared_bytes(blocks) - Impl::cluster_control_bytes) / bytes;
    return count < 64 ? count : 64;
  }
  /// Slots that a row of `vectors` vectors takes of each block.
  constexpr std::int64_t pieces(std::int64_t vectors_of_row) const {
    const std::int64_t slice = (vectors_of_row + width - 1) / width;
    const std::int64_t count = (slice + slot_vectors() - 1) / slot_vectors();
    return count < 1 ? 1 : count;
  }
  /// Whether the rows that are on chip at once fit the ring, and leave a slot to load into.
  constexpr bool holds(std::int64_t vectors_of_row, int streams, int rounds) const {
    return pieces(vectors_of_row) * (1 + rounds * lag) < slots(streams);
  }

  std::string describe() const {
    return "width=" + std::to_string(width) + " lag=" + std::to_string(lag) + " threads=" + std::to_string(threads) +
           " vectors=" + std::to_string(vectors) + " blocks=" + std::to_string(blocks);
  }

  /// From what `describe` says. \throws InvalidArgument  with the text and the form it should have
  static ClusterShape parse(const std::string& text) {
    ClusterShape shape;
    char rest = 0;
    const int found = std::sscanf(text.c_str(), "width=%d lag=%d threads=%d vectors=%d blocks=%d %c", &shape.width,
                                  &shape.lag, &shape.threads, &shape.vectors, &shape.blocks, &rest);
    Impl::expects(
        found == 5 && shape.lag >= 0 && (shape.width == 1 || shape.width == 2 || shape.width == 4 || shape.width == 8),
        [&] {
          return "variant of path cluster is \"" + text + "\": it must read like \"" + ClusterShape{}.describe() +
                 "\", with a width of 1, 2, 4 or 8 and a lag of 0 or more";
        });
    return shape;
  }
};

}  // namespace vocabloss

#endif
