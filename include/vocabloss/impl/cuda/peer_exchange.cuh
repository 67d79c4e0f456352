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

/// Words from one state to the next, where states of any round lie side by side.
template <class Loss>
constexpr int words_between_states() {
  using First = WordsOf<typename Loss::template State<0>>;
  using Last = WordsOf<typename Loss::template State<Loss::rounds - 1>>;
  union Either {
    First first;
    Last last;
  };
  return static_cast<int>(sizeof(Either) / sizeof(float));
}
template <class Loss>
inline constexpr int peer_words = words_between_states<Loss>();

/// States that one warp merges.
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
__device__ __forceinline__ std::uint64_t load_from_peers(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
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
  /// For one exchange warp: the states of a row from all blocks of all ranks, side by side.
  template <class Loss>
  static constexpr int shared_bytes = max_peer_states* peer_words<Loss>* static_cast<int>(sizeof(float));

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
  __device__ __forceinline__ PeerSession<Loss> open(unsigned char* shared, int width, int block) const;
};

/// One launch's use of the windows by one warp of a block.
template <class Loss>
class PeerSession {
 public:
  __device__ __forceinline__ PeerSession(const PeerExchange& exchange, unsigned char* shared, int width, int block)
      : peers_(exchange),
        states_(reinterpret_cast<float*>(shared)),
        states_count_(exchange.ranks * width),
        launch_(load_from_peers(&exchange.tickets->launches) + 1),
        is_lost_(load_from_peers(&exchange.control_of(exchange.rank)->lost) != 0) {
    const std::int64_t half = (launch_ & 1) * Loss::rounds * exchange.rows * states_count_ * words;
    const auto words_of_rank = [&](int rank) {
      return reinterpret_cast<std::uint64_t*>(exchange.window[rank] + sizeof(PeerControl)) + half;
    };
    received_ = words_of_rank(exchange.rank);
#pragma unroll
    for (int k = 0; k < sent_by_lane; ++k) {
      const int peer = (lane_of_warp() + 32 * k) / words;
      const bool is_sent = peer < exchange.ranks && peer != exchange.rank;
      sent_[k] = is_sent ? words_of_rank(peer) + (exchange.rank * width + block) * words + word_of_lane(k) : nullptr;
    }
  }

  /// All ranks have clusters of the same width, and at most max_peer_states blocks that hold a part of a row.
  /// `in_shared`: the state, in shared memory.
  template <int Round, class State>
  __device__ __forceinline__ void send(const State& state, const WordsOf<State>& in_shared,
                                       const ClusterStates<State>& cluster, std::int64_t row) {
    if (!is_lost_) {
      const std::int64_t first = first_word<Round>(row);
#pragma unroll
      for (int k = 0; k < sent_by_lane; ++k) {
        const int word = word_of_lane(k);
        if (sent_[k] && word < words_of<State>) {
          const std::uint64_t value = __float_as_uint(in_shared.word[word]);
          store_for_peers(sent_[k] + first, static_cast<std::uint64_t>(launch_) << 32 | value);
        }
      }
    }
    cluster.push(state);  // even where a rank is lost: the cluster's other blocks wait for it
  }
  template <int Round, class State, class Meanwhile>
  __device__ __forceinline__ State merge(const Loss& loss, const State& state, const ClusterStates<State>& cluster,
                                         std::int64_t row, Meanwhile&& meanwhile) {
    if (!is_lost_) receive<words_of<State>>(first_word<Round>(row), cluster.width, meanwhile);
    cluster.wait();
    if (is_lost_) give_up();
    __syncwarp();
    int lanes = 2;
    while (lanes < states_count_) lanes *= 2;
    const int place = lane_of_warp() & (lanes - 1);
    State part = Loss::template identity<Round, 1>();
    if (place / cluster.width == peers_.rank) {
      part = cluster.from(place % cluster.width, state);
    } else if (place < states_count_) {
      part = from_words(*reinterpret_cast<const WordsOf<State>*>(states_ + place * words));
    }
    __syncwarp();
    return merge_states<Round>(loss, part, lanes);
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
    return (Round * peers_.rows + row) * (states_count_ * words);
  }

  /// The other ranks' words; this rank's come from the cluster. A load takes most of a microsecond, so several are
  /// under way at once.
  template <int words_of_state, class Meanwhile>
  __device__ __forceinline__ void receive(std::int64_t first, int width, Meanwhile&& meanwhile) {
    constexpr int at_once = 4;
    const std::uint64_t* window = received_ + first;
    const int lane = lane_of_warp(), count = states_count_ * words;
    const int own = peers_.rank * width * words, own_end = own + width * words;
    const auto is_expected = [&](int i) {
      return i < count && (i < own || i >= own_end) && (words_of_state == words || i % words < words_of_state);
    };
    for (int begin = lane; begin - lane < count; begin += 32 * at_once) {
      std::uint64_t word[at_once], since = 0;
      for (unsigned int tries = 1;; ++tries) {
#pragma unroll
        for (int k = 0; k < at_once; ++k) {
          if (is_expected(begin + 32 * k)) word[k] = load_from_peers(window + begin + 32 * k);
        }
        bool have_come = true;
#pragma unroll
        for (int k = 0; k < at_once; ++k) {
          if (is_expected(begin + 32 * k)) have_come &= static_cast<unsigned int>(word[k] >> 32) == launch_;
        }
        if (__all_sync(0xffffffffu, have_come)) break;
        if (tries % 64 == 0 && is_too_late(since)) {
          is_lost_ = true;
          return;
        }
        meanwhile();
      }
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        if (is_expected(begin + 32 * k)) states_[begin + 32 * k] = __uint_as_float(static_cast<unsigned int>(word[k]));
      }
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
  float* states_;                      ///< of a row from the other ranks, side by side, `words` each
  const int states_count_;             ///< from all ranks
  unsigned int launch_;                ///< its number, never 0
  const std::uint64_t* received_;      ///< this launch's half of the own window
  std::uint64_t* sent_[sent_by_lane];  ///< where this lane's words of row 0 go, in other ranks' windows, or null
  bool is_lost_;
};

template <class Loss>
__device__ __forceinline__ PeerSession<Loss> PeerExchange::open(unsigned char* shared, int width, int block) const {
  return PeerSession<Loss>(*this, shared, width, block);
}

}  // namespace vocabloss::Impl

#endif
