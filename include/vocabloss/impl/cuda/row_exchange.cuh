// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_ROW_EXCHANGE_CUH
#define VOCABLOSS_IMPL_CUDA_ROW_EXCHANGE_CUH

/// \file
/// \brief An exchange warp: from the states of the consumer warps to the statistics of the row, its losses, and the
/// constants of its gradient.

#include <vocabloss/impl/cuda/row_claims.cuh>
#include <vocabloss/loss/math.hpp>

namespace vocabloss::Impl {

/// The seam for a vocabulary that is split over GPUs, here for one that is not (peer_exchange.cuh has the other). A
/// kernel opens it before its first barrier, and tells it the cluster's width and which of its blocks this is. A row's
/// exchange warp in every block calls `expect` when the row's states are next to be waited for, `send` with the block's
/// state in every lane, and later `merge`, which gives the state of the whole row in every lane; `meanwhile` is called
/// now and then where that takes long.
struct NoExchange {
  static constexpr bool clusters_meet = false;  ///< of all ranks, in every row: see row_claims.cuh
  /// Not null: a forward pass leaves every row's state here, [rows][words] as StateWords tells them, for an exchange
  /// between kernels. Losses of one round only.
  float* states = nullptr;

  template <class Loss>
  __device__ __forceinline__ NoExchange open(int /*width*/, int /*block*/) const {
    return *this;
  }
  __device__ __forceinline__ void expect(std::int64_t /*row*/) const {}
  template <int Round, class State>
  __device__ __forceinline__ void send(const State& state, const ClusterStates<State>& cluster,
                                       std::int64_t /*row*/) const {
    cluster.push(state);
  }
  template <int Round, class Loss, class State, class Meanwhile>
  __device__ __forceinline__ State merge(const Loss& loss, const State& state, const ClusterStates<State>& cluster,
                                         std::int64_t /*row*/, Meanwhile&&) const {
    if (cluster.width == 1) return state;
    cluster.wait();
    const State of_block = cluster.from(threadIdx.x % cluster.width, state);
    return merge_states<Round>(loss, of_block, cluster.width);
  }
  /// Whether states of other ranks did not come: then rows must not look finished.
  __device__ __forceinline__ bool is_lost() const { return false; }
};

template <class Loss, class T, Pass pass, class Shape, class Peers>
struct ExchangeWarp {
  static constexpr int turns = Shape::exchange_warps;
  using Statistics = typename Loss::Statistics;

  const Loss& loss;
  const RowCall<float>& call;
  const ClusterLaunch& launch;
  Peers peers;
  const RowClaims claims;
  ClusterShared<Loss>& shared;
  const int rank;
  const int turn;  ///< which exchange warp this is
  const int lane;

  int unsent = turn;  ///< the first of this warp's rows whose states are not yet sent

  /// Rows in the order in which the consumers gather them.
  __device__ void run() {
    for (int i = 0; claims.wait_for(i) >= 0; ++i) {
      if (i % turns != turn) continue;
      if constexpr (pass == Pass::backward) {
        post_saved(i);
      } else {
        finish<0>(i);
        if constexpr (Loss::rounds == 2) finish<1>(i);
      }
    }
  }

 private:
  template <int Round>
  __device__ __forceinline__ void finish(int i) {
    constexpr bool is_last = Round == Loss::rounds - 1;
    const RowSlot use(i);
    const std::int64_t row = claims.row(i);
    RowFacts<float> facts;
    if constexpr (is_last) facts = row_facts(call, row);  // asked for before the wait
    auto& buffers = shared.template round<Round>();
    typename Loss::template State<Round> state;
    if constexpr (Shape::reads_again) {
      state = merge_slices<Round>(i);
    } else {
      if (Loss::rounds > 1 || unsent == i) send<Round>(i);
      state = from_words(buffers.warp_state[use.index][0]);
    }
    // While the other ranks' states are on their way, this warp's next row may become known here: it need not wait.
    state = peers.template merge<Round>(loss, state, cluster_states<Round>(use), row, [&] {
      if constexpr (Loss::rounds == 1) {
        const RowSlot next(unsent);
        const bool is_known = claims.has(unsent) && has_ended(&buffers.gathered[next.index], next.parity);
        if (__all_sync(0xffffffffu, is_known)) send<Round>(unsent);
      }
    });
    if (lane == 0) {
      Posted<Loss>& posted = shared.posted[use.index];
      Statistics statistics{};
      if constexpr (Round > 0) statistics = posted.statistics;
      loss.template finish<Round>(statistics, state);
      if constexpr (is_last) {
        if (facts.status == RowStatus::poisoned || peers.is_lost())
          loss::poison(statistics, loss::not_a_number<float>());
        post(posted, statistics, facts, row);
      } else {
        posted.statistics = statistics;
      }
      arrive(&buffers.ready[use.index]);
      if (is_last && rank == 0) {
        store_losses(loss, call, row, facts, statistics);
        store_statistics<Loss>(call, row, statistics);
        if constexpr (pass == Pass::forward && Loss::rounds == 1 && requires { peers.states; }) {
          using Words = StateWords<Loss, Round>;
          if (peers.states) Words::store(peers.states + row * Words::count, state);
        }
      }
    }
    __syncwarp();
    if (is_last && lane == 0) claims.retire(i);
  }

  /// The block's state of a row, found and sent; it stays in the first warp's place.
  template <int Round>
  __device__ __forceinline__ void send(int i) {
    const RowSlot use(i);
    auto& buffers = shared.template round<Round>();
    if constexpr (Round == 0) peers.expect(claims.row(i));
    wait(&buffers.gathered[use.index], use.parity);
    auto state = from_words(buffers.warp_state[use.index][lane % Shape::warps]);
    state = merge_states<Round>(loss, state, Shape::warps);
    peers.template send<Round>(state, cluster_states<Round>(use), claims.row(i));
    unsent = i + turns;
    __syncwarp();
    if (lane == 0) buffers.warp_state[use.index][0] = to_words(state);
    __syncwarp();
  }
  /// The same of slices that the block takes in turn: the state of the row, merged as blocks of a cluster merge theirs.
  template <int Round>
  __device__ __forceinline__ auto merge_slices(int i) {
    auto& buffers = shared.template round<Round>();
    auto& of_slice = buffers.mailbox[RowSlot(i).index].from;
    const int slices = launch.in_turn;
    for (int s = 0; s < slices; ++s) {
      const RowSlot use(i * slices + s);
      wait(&buffers.gathered[use.index], use.parity);
      auto state = from_words(buffers.warp_state[use.index][lane % Shape::warps]);
      state = merge_states<Round>(loss, state, Shape::warps);
      __syncwarp();
      if (lane == 0) {
        of_slice[s] = to_words(state);
        arrive(&buffers.exchanged[use.index]);
      }
    }
    __syncwarp();
    return merge_states<Round>(loss, from_words(of_slice[lane % slices]), slices);
  }

  template <int Round>
  __device__ __forceinline__ auto cluster_states(const RowSlot& use) {
    auto& buffers = shared.template round<Round>();
    using State = typename Loss::template State<Round>;
    return ClusterStates<State>{launch.width, rank, buffers.mailbox[use.index], &buffers.exchanged[use.index],
                                use.parity};
  }

  __device__ __forceinline__ void post_saved(int i) {
    const RowSlot use(i);
    const std::int64_t row = claims.row(i);
    const RowFacts<float> facts = row_facts(call, row);
    Statistics statistics = load_statistics<Loss>(call, row);
    if (facts.status == RowStatus::poisoned) loss::poison(statistics, loss::not_a_number<float>());
    wait(&shared.first.gathered[use.index], use.parity);
    if (lane == 0) {
      post(shared.posted[use.index], statistics, facts, row);
      arrive(&shared.template round<Loss::rounds - 1>().ready[use.index]);
    }
    __syncwarp();
    if (lane == 0) claims.retire(i);
  }

  __device__ __forceinline__ void post(Posted<Loss>& posted, const Statistics& statistics, const RowFacts<float>& facts,
                                       std::int64_t row) const {
    if constexpr (pass == Pass::forward) return;
    posted.gradient_row = loss.gradient_row(statistics, facts.row);
    posted.gradient = call.gradient.template row<T>(row);
    posted.label = facts.row.label < 0 ? no_label : facts.row.label;
    posted.masked = facts.status == RowStatus::masked;
  }
};

}  // namespace vocabloss::Impl

#endif
