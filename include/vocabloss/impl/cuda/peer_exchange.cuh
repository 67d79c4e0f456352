// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_PEER_EXCHANGE_CUH
#define VOCABLOSS_IMPL_CUDA_PEER_EXCHANGE_CUH

/// \file
/// \brief The exchange between GPUs inside the cluster kernel: each block writes its states into the other ranks'
/// memory.
///
/// Every rank has a window of device memory that all ranks can write:
///
///     control | launch parity 0: round, row, source rank, its block, word | launch parity 1: the same
///
/// A word is 8 bytes, a float and the number of the launch that wrote it, stored and loaded at once: it is there when
/// its number is, so nothing needs a fence, a flag or a reset. Two halves are enough. A rank that writes for launch
/// e + 2 has finished e + 1, for which it had every other rank's states of e + 1, and those ranks had left e by then.
///
/// A word takes about a microsecond to cross NVLink and be seen. Blocks send at the same time to their cluster and to
/// the other ranks, so that a row's states travel once and not twice; meanwhile the consumers sum what the ring
/// holds of the next row. All ranks merge the same states in the same order, so all end with the same bits.
///
/// Waiting is bounded. A warp that waits too long marks all windows as lost; whoever sees that mark stops waiting too,
/// and the rows that are left become NaN. The mark stays: later launches write NaN throughout.

#include <vocabloss/impl/cuda/clock.cuh>
#include <vocabloss/impl/cuda/cluster_call.cuh>

#include <cstdint>
#include <type_traits>

namespace vocabloss::Impl {

/// GPUs of one NVLink domain that share a vocabulary.
inline constexpr int max_peer_ranks = 8;

/// At the start of a window.
struct alignas(128) PeerControl {
  unsigned int lost;  ///< a rank has given up
};

/// Words from one state to the next, where states of any round lie side by side: an even number, since two are loaded
/// at once.
template <class Loss>
constexpr int words_between_states() {
  using First = WordsOf<typename Loss::template State<0>>;
  using Last = WordsOf<typename Loss::template State<Loss::rounds - 1>>;
  union Either {
    First first;
    Last last;
  };
  return static_cast<int>((sizeof(Either) / sizeof(float) + 1) / 2 * 2);
}
template <class Loss>
inline constexpr int peer_words = words_between_states<Loss>();

/// States that one warp merges, a lane each.
inline constexpr int max_peer_states = 32;

/// Bytes of a window for launches of at most `rows` rows and clusters of `width` blocks.
template <class Loss>
constexpr std::size_t peer_window_bytes(std::int64_t rows, int ranks, int width) {
  return sizeof(PeerControl) +
         std::size_t(2) * Loss::rounds * rows * ranks * width * peer_words<Loss> * sizeof(std::uint64_t);
}

/// Whole words, seen by the other GPUs in no order but their own.
__device__ __forceinline__ void store_for_peers(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ __forceinline__ void store_for_peers(unsigned int* word, unsigned int value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
/// Two words side by side, each loaded as a whole.
__device__ __forceinline__ void load_from_peers(const std::uint64_t* words, std::uint64_t& first,
                                                std::uint64_t& second) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(words) : "memory");
}
__device__ __forceinline__ unsigned int load_from_peers(const unsigned int* word) {
  unsigned int value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

template <class Loss>
class PeerSession;

/// What a launch is told of the other ranks; goes to the kernel as it is.
struct PeerExchange {
  static constexpr bool clusters_meet = true;

  unsigned char* window[max_peer_ranks];  ///< of each rank, as this GPU reaches it
  int rank, ranks;
  std::int64_t rows;         ///< that a half of a window has room for
  std::uint64_t time_limit;  ///< nanoseconds
  const ClusterTickets* tickets;
  unsigned int* lost_on_host;  ///< in pinned memory: set when a rank has given up

  __device__ __forceinline__ PeerControl* control_of(int peer) const {
    return reinterpret_cast<PeerControl*>(window[peer]);
  }
  template <class Loss>
  __device__ __forceinline__ PeerSession<Loss> open(int width, int block) const;
};

/// One launch's use of the windows by one warp of a block. Lane i merges the state of block i of all ranks' blocks: it
/// looks for that state's words itself, so that from their arrival to the merge little is left to do.
template <class Loss>
class PeerSession {
 public:
  __device__ __forceinline__ PeerSession(const PeerExchange& exchange, int width, int block)
      : peers_(exchange),
        words_of_row_(exchange.ranks * width * words),
        launch_(load_from_peers(&exchange.tickets->launches) + 1),
        is_lost_(load_from_peers(&exchange.control_of(exchange.rank)->lost) != 0) {
    const std::int64_t half = (launch_ & 1) * Loss::rounds * exchange.rows * words_of_row_;
    const auto words_of_rank = [&](int rank) {
      return reinterpret_cast<std::uint64_t*>(exchange.window[rank] + sizeof(PeerControl)) + half;
    };
    while (lanes_ < exchange.ranks * width) lanes_ *= 2;
    const int place = lane_of_warp() & (lanes_ - 1);
    own_block_ = place - exchange.rank * width;
    const bool is_of_others = place < exchange.ranks * width && (own_block_ < 0 || own_block_ >= width);
    received_ = is_of_others ? words_of_rank(exchange.rank) + place * words : nullptr;
#pragma unroll
    for (int k = 0; k < sent_by_lane; ++k) {
      const int peer = (lane_of_warp() + 32 * k) / words;
      const bool is_sent = peer < exchange.ranks && peer != exchange.rank;
      sent_[k] = is_sent ? words_of_rank(peer) + (exchange.rank * width + block) * words + word_of_lane(k) : nullptr;
    }
  }

  /// Before a row is sent. Its place in the window (the first round's) was used two launches ago and lies in memory by
  /// now: the first look at it would take as long as the words take to come.
  __device__ __forceinline__ void expect(std::int64_t row) const {
    if (received_) prefetch_to_l2(received_ + first_word<0>(row));
  }

  /// All ranks have clusters of the same width, and at most max_peer_states blocks that hold a part of a row.
  template <int Round, class State>
  __device__ __forceinline__ void send(const State& state, const ClusterStates<State>& cluster, std::int64_t row) {
    if (!is_lost_) {
      const std::int64_t first = first_word<Round>(row);
      const WordsOf<State> all = to_words(state);
#pragma unroll
      for (int k = 0; k < sent_by_lane; ++k) {
        const int word = word_of_lane(k);
        float value = all.word[0];
#pragma unroll
        for (int w = 1; w < words_of<State>; ++w) value = w == word ? all.word[w] : value;
        if (sent_[k] && word < words_of<State>) {
          store_for_peers(sent_[k] + first, static_cast<std::uint64_t>(launch_) << 32 | __float_as_uint(value));
        }
      }
    }
    cluster.push(state);  // even where a rank is lost: the cluster's other blocks wait for it
  }
  template <int Round, class State, class Meanwhile>
  __device__ __forceinline__ State merge(const Loss& loss, const State& state, const ClusterStates<State>& cluster,
                                         std::int64_t row, Meanwhile&& meanwhile) {
    WordsOf<State> from_others{};
    if (!is_lost_) receive(from_others, first_word<Round>(row), meanwhile);
    cluster.wait();
    if (is_lost_) give_up();
    State part = Loss::template identity<Round, 1>();
    if (received_) {
      part = from_words(from_others);
    } else if (own_block_ >= 0 && own_block_ < cluster.width) {
      part = cluster.from(own_block_, state);
    }
    __syncwarp();
    return merge_states<Round>(loss, part, lanes_);
  }

  __device__ __forceinline__ bool is_lost() const { return is_lost_; }

 private:
  static constexpr int words = peer_words<Loss>;
  static constexpr int sent_by_lane = (max_peer_ranks * words + 31) / 32;

  __device__ __forceinline__ static int lane_of_warp() { return threadIdx.x % 32; }
  __device__ __forceinline__ static int word_of_lane(int k) { return (lane_of_warp() + 32 * k) % words; }

  /// Of a row's states, in this launch's half of a window.
  template <int Round>
  __device__ __forceinline__ std::int64_t first_word(std::int64_t row) const {
    return (Round * peers_.rows + row) * words_of_row_;
  }

  /// The words of this lane's state, unless it comes from this rank's cluster. A load takes most of a microsecond, so
  /// all are under way at once.
  template <class Words, class Meanwhile>
  __device__ __forceinline__ void receive(Words& state, std::int64_t first, Meanwhile&& meanwhile) {
    constexpr int count = sizeof(Words) / sizeof(float);
    std::uint64_t since = 0;
    for (unsigned int tries = 1;; ++tries) {
      bool have_come = true;
      if (received_) {
        std::uint64_t word[count + 1];
#pragma unroll
        for (int w = 0; w < count; w += 2) load_from_peers(received_ + first + w, word[w], word[w + 1]);
#pragma unroll
        for (int w = 0; w < count; ++w) {
          have_come &= static_cast<unsigned int>(word[w] >> 32) == launch_;
          state.word[w] = __uint_as_float(static_cast<unsigned int>(word[w]));
        }
      }
      if (__all_sync(0xffffffffu, have_come)) return;
      if (tries % 64 == 0 && is_too_late(since)) {
        is_lost_ = true;
        return;
      }
      meanwhile();
    }
  }

  /// By all lanes; the first call starts the clock.
  __device__ __forceinline__ bool is_too_late(std::uint64_t& since) const {
    const std::uint64_t now = nanoseconds();
    if (since == 0) since = now;
    const bool other_gave_up = load_from_peers(&peers_.control_of(peers_.rank)->lost) != 0;
    return __any_sync(0xffffffffu, other_gave_up || now - since > peers_.time_limit);
  }

  /// Tells the host and all ranks.
  __device__ __forceinline__ void give_up() const {
    const int lane = lane_of_warp();
    if (lane == 0) store_for_peers(peers_.lost_on_host, 1u);
    if (lane < peers_.ranks) store_for_peers(&peers_.control_of(lane)->lost, 1u);
  }

  const PeerExchange& peers_;
  const int words_of_row_;             ///< in a window
  unsigned int launch_;                ///< its number, never 0
  int lanes_ = 2;                      ///< a power of two: so many hold all states, and the others the same again
  int own_block_;                      ///< of this rank's cluster, whose state this lane merges, if it is one
  const std::uint64_t* received_;      ///< where this lane's state of row 0 comes, if it is another rank's, or null
  std::uint64_t* sent_[sent_by_lane];  ///< where this lane's words of row 0 go, in other ranks' windows, or null
  bool is_lost_;
};

template <class Loss>
__device__ __forceinline__ PeerSession<Loss> PeerExchange::open(int width, int block) const {
  return PeerSession<Loss>(*this, width, block);
}

}  // namespace vocabloss::Impl

#endif
