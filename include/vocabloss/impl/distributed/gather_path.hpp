// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_DISTRIBUTED_GATHER_PATH_HPP
#define VOCABLOSS_IMPL_DISTRIBUTED_GATHER_PATH_HPP

/// \file
/// \brief Path `gather`, a comparator: every rank gets all logits, finds the statistics of whole rows, and writes the
/// gradient of its own columns.
///
/// The gathered rows stay in pieces, one a rank, [rank][row][pitch]: padded to the largest shard, rows a multiple of 16
/// bytes. Memory: (ranks + 1) * rows * pitch bytes a stream. Example: 8192 x 131072 in bf16 over 2 ranks, two streams:
/// 3 * 8192 * 128 KiB * 2 = 6.4 GB, where the shards themselves have 4.3 GB.

#include <vocabloss/error.hpp>
#include <vocabloss/impl/allocate.hpp>
#include <vocabloss/impl/distributed/shards.hpp>
#include <vocabloss/impl/distributed/side_stream.hpp>
#include <vocabloss/impl/distributed/stage_launch.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace vocabloss::Impl {

/// Where the parts of the buffer lie.
struct GatherLayout {
  std::int64_t pitch[2] = {0, 0};  ///< bytes of a row of each stream
  std::int64_t block_rows = 0;
  int ranks = 1;
  std::size_t states_bytes = 0;  ///< of one round

  /// An exchange counts its floats in int on some libraries.
  static constexpr std::int64_t most_message_bytes = std::int64_t(1) << 32;

  GatherLayout(const Problem& problem, const std::vector<VocabPartition>& shards, int streams, std::size_t state_bytes)
      : ranks(static_cast<int>(shards.size())) {
    const std::int64_t columns = largest_shard(shards);
    for (int stream = 0; stream < streams; ++stream) {
      const int bytes = size_of(stream == 0 ? problem.logits : problem.teacher.value_or(problem.logits));
      pitch[stream] = (columns * bytes + 15) / 16 * 16;
    }
    block_rows = std::clamp<std::int64_t>(most_message_bytes / std::max(pitch[0], pitch[1]), 1,
                                          std::max<std::int64_t>(problem.rows, 1));
    states_bytes = (std::size_t(ranks) * block_rows * state_bytes + 15) / 16 * 16;
  }

  std::size_t message_bytes(int stream) const { return std::size_t(block_rows) * pitch[stream]; }
  /// Of the rows to send, then of the rows of all ranks.
  std::size_t offset(int stream) const { return 2 * states_bytes + (stream == 0 ? 0 : message_bytes(0) * (1 + ranks)); }
  std::size_t bytes() const { return offset(1) + message_bytes(1) * (1 + ranks); }
};

template <class Loss, class Logit, class Exec, class Comm>
class GatherExchange {
 public:
  using Real = typename Loss::Real;
  static constexpr bool overlaps = false;
  static constexpr int slots = 1;
  static constexpr std::size_t state_bytes = most_state_words<Loss>() * sizeof(Real);

  GatherExchange(Comm& comm, const GatherLayout& layout, const std::vector<VocabPartition>& shards,
                 const LaunchPlan& plan, char* buffer)
      : comm_(comm), layout_(layout), shards_(shards), plan_(plan), buffer_(buffer) {}

  template <int Round>
  void start(const Exec& exec, const Loss& loss, const RowCall<Real>& call, Pass pass, int slot) {
    if constexpr (Round == 0) {
      gather(exec, call.logits, call, 0);
      if (Loss::streams == 2) gather(exec, call.teacher, call, 1);
    }
    last_ = Round;
    for (int rank = 0; rank < layout_.ranks; ++rank) {
      Real* states = states_of(Round) + std::size_t(rank) * call.rows * StateWords<Loss, Round>::count;
      run_stage<Round, Logit>(exec, loss, piece(call, rank), pass, plan_, states_after(Round - 1, call), states);
    }
    (void)slot;
  }
  void join(const Exec&, int) const {}
  MergedStates<Real> merged(const RowCall<Real>& call, int) const { return states_after(last_, call); }

 private:
  Real* states_of(int round) const { return reinterpret_cast<Real*>(buffer_ + (round & 1) * layout_.states_bytes); }
  MergedStates<Real> states_after(int round, const RowCall<Real>& call) const {
    MergedStates<Real> states;
    states.gathered = states_of(round);
    states.ranks = layout_.ranks;
    states.rows = call.rows;
    return states;
  }
  char* all(int stream) const { return buffer_ + layout_.offset(stream) + layout_.message_bytes(stream); }

  /// The rows of `rank`'s columns, as that rank would see them.
  RowCall<Real> piece(const RowCall<Real>& call, int rank) const {
    RowCall<Real> result = call;
    result.columns = static_cast<int>(shards_[rank].columns);
    result.first_column = shards_[rank].first;
    int stream = 0;
    for (Stream* moved : {&result.logits, &result.teacher}) {
      if (layout_.pitch[stream] > 0) {
        moved->data = all(stream) + std::size_t(rank) * call.rows * layout_.pitch[stream];
        moved->stride = layout_.pitch[stream] / size_of(moved->type);
      }
      ++stream;
    }
    return result;
  }

  void gather(const Exec& exec, const Stream& from, const RowCall<Real>& call, int stream) {
    const std::int64_t bytes = size_of(from.type);
    const std::int64_t pitch = layout_.pitch[stream];
    const void* send = from.data;
    if (from.stride * bytes != pitch || call.columns * bytes != pitch) {
      char* packed = buffer_ + layout_.offset(stream);
      if (call.columns > 0) {
        bytes == 2   ? pack<std::uint16_t>(exec, from, call, packed, pitch)
        : bytes == 4 ? pack<std::uint32_t>(exec, from, call, packed, pitch)
                     : pack<std::uint64_t>(exec, from, call, packed, pitch);
      }
      send = packed;
    }
    // As floats whatever they are: they are only moved.
    const std::size_t count = std::size_t(call.rows) * pitch / sizeof(float);
    float* gathered = reinterpret_cast<float*>(all(stream));
    if constexpr (Comm::is_asynchronous) fill_with_nan(exec, gathered, count * layout_.ranks);
    comm_.all_gather(exec, static_cast<const float*>(send), gathered, count);
  }

  template <class Word>
  static void pack(const Exec& exec, const Stream& from, const RowCall<Real>& call, char* to, std::int64_t pitch) {
    using Memory = typename Exec::memory_space;
    const auto layout = [&](std::int64_t stride) { return Kokkos::LayoutStride(call.rows, stride, call.columns, 1); };
    Kokkos::deep_copy(exec,
                      Kokkos::View<Word**, Kokkos::LayoutStride, Memory, Kokkos::MemoryUnmanaged>(
                          reinterpret_cast<Word*>(to), layout(pitch / std::int64_t(sizeof(Word)))),
                      Kokkos::View<const Word**, Kokkos::LayoutStride, Memory, Kokkos::MemoryUnmanaged>(
                          static_cast<const Word*>(from.data), layout(from.stride)));
  }

  Comm& comm_;
  const GatherLayout& layout_;
  const std::vector<VocabPartition>& shards_;
  const LaunchPlan& plan_;
  char* buffer_;
  int last_ = 0;
};

/// Throws OutOfMemory, with the bytes, where the gathered logits cannot fit. `sharers`: ranks on this host's memory.
template <class Exec>
void expect_room(const GatherLayout& layout, std::size_t limit, int sharers) {
  const bool on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Exec::memory_space>::accessible;
  const std::size_t left = limit > 0 ? limit : bytes_left<Exec>() / (on_host ? sharers : 1);
  if (layout.bytes() <= left) return;
  throw OutOfMemory("vocabloss: path gather needs " + std::to_string(layout.bytes()) +
                    " bytes a rank for the logits of all ranks, and " + std::to_string(left) +
                    (limit > 0 ? " are allowed" : " are left") + ": exchange states instead (path team)");
}

}  // namespace vocabloss::Impl

#endif
