// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_CLUSTER_LAUNCH_CUH
#define VOCABLOSS_IMPL_CUDA_CLUSTER_LAUNCH_CUH

/// \file
/// \brief Starts the kernel of path `cluster`: on the caller's stream, without allocating or waiting, so that a CUDA
/// graph can capture it.

#include <vocabloss/error.hpp>
#include <vocabloss/impl/cuda/cluster_shapes.hpp>
#include <vocabloss/impl/cuda/peer_exchange.cuh>
#include <vocabloss/impl/cuda/row_in_cluster.cuh>
#include <vocabloss/tuning/cluster_shape.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

namespace vocabloss::Impl {

inline void check_cluster_call(cudaError_t code, const char* call, const ClusterShape& shape) {
  if (code == cudaSuccess) return;
  throw CudaError(std::string("vocabloss: path cluster (") + shape.describe() + "): " + call + ": " +
                  cudaGetErrorString(code));
}

template <class Loss, class T, Pass pass, class Shape, class RankExchange = NoExchange>
struct ClusterKernel {
  using Attributes = std::array<cudaLaunchAttribute, 2>;

  static constexpr int dynamic_bytes = cluster_shared_bytes(Shape::blocks);
  static constexpr int control_bytes = sizeof(ClusterShared<Loss>);
  static_assert(control_bytes <= cluster_control_bytes, "the loss has too large a state");

  static ClusterLaunch constants(const RowCall<float>& call, const ClusterShape& shape, ClusterTickets* tickets) {
    ClusterLaunch launch{};
    const bool are_aligned = is_aligned(call.logits, call.rows);
    const int vectors = most_vectors<vector_columns<T>>(call.columns, are_aligned);
    launch.width = shape.width;
    launch.in_turn = 1;
    const ClusterCut row = shape.cut(vectors, Loss::streams, dynamic_bytes - control_bytes);
    const int pieces = static_cast<int>(row.pieces);
    launch.slices = {static_cast<int>(row.slice_vectors), pieces};
    launch.is_uneven =
        row.slot_vectors > shape.piece_vectors() || !are_aligned || call.columns % vector_columns<T> != 0;
    launch.region_bytes = ClusterShape::region_bytes(row.slot_vectors);
    launch.slot_bytes = Loss::streams * launch.region_bytes;
    // Producers run ahead by fewer rows than there are claims, or one that waits for a claim might hold up its
    // retirement; and an exchange warp that is two rows behind still finds the claim of the row that is not its own.
    launch.slots = std::min(row.slots, (max_claims - 5) * pieces);
    launch.ahead = std::clamp(launch.slots - Shape::groups * pieces, 0, std::min(shape.ahead, pieces));
    launch.tickets = tickets;
    return launch;
  }

  /// `leftover`: blocks of another launch, beside this one, that will share the tickets.
  static void launch(const Loss& loss, const RowCall<float>& call, const ClusterShape& shape, ClusterTickets* tickets,
                     cudaStream_t stream, const RankExchange& ranks, int leftover = 0) {
    ClusterLaunch launch = constants(call, shape, tickets);
    if (Shape::groups * launch.slices.pieces > launch.slots && (keeps_rows<Loss, Shape>(pass) || Shape::groups > 1)) {
      throw PathRefused("vocabloss: path cluster (" + shape.describe() + "): a row of " + std::to_string(call.columns) +
                        " columns does not fit");
    }
    const int clusters = static_cast<int>(std::min<std::int64_t>(call.rows, resident_clusters(shape)));
    launch.sharing = clusters + leftover;
    Attributes attributes;
    const cudaLaunchConfig_t config = configuration(shape.width, clusters, stream, attributes);
    start(config, loss, call, launch, ranks, shape);
  }

  /// Of a RereadingShape, beside the launch of `clusters` clusters of `shape` before it: `blocks` blocks.
  static void launch_beside(const Loss& loss, const RowCall<float>& call, const ClusterShape& shape, int blocks,
                            int clusters, ClusterTickets* tickets, cudaStream_t stream) {
    static_assert(Shape::reads_again);
    ClusterLaunch launch = constants(call, shape, tickets);
    launch.width = 1;
    launch.in_turn = shape.width;
    launch.first_claim = clusters;  // one each
    launch.sharing = clusters + blocks;
    // A block takes `width` times as long for a row, and half as long again until its gradient is written.
    launch.left_to_others = clusters * shape.width * 3 / 2;
    Attributes attributes;
    cudaLaunchConfig_t config = configuration(1, blocks, stream, attributes);
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    config.numAttrs = 2;
    start(config, loss, call, launch, {}, shape);
  }

  /// Clusters that run at once; asked of the driver once a device and width. Two threads that ask at the same time get
  /// the same answer.
  static int resident_clusters(const ClusterShape& shape) {
    constexpr int max_devices = 64;
    static std::array<std::array<std::atomic<int>, max_cluster_width + 1>, max_devices> known{};
    int device = 0;
    check_cluster_call(cudaGetDevice(&device), "cudaGetDevice", shape);
    std::atomic<int>& count = known[device % max_devices][shape.width];
    if (const int clusters = count.load(std::memory_order_acquire)) return clusters;
    const auto kernel = row_in_cluster<Loss, T, pass, Shape, RankExchange>;
    check_cluster_call(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_bytes),
                       "cudaFuncSetAttribute", shape);
    Attributes attributes;
    const cudaLaunchConfig_t config = configuration(shape.width, 1, nullptr, attributes);
    int clusters = 0;
    check_cluster_call(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), "cudaOccupancyMaxActiveClusters",
                       shape);
    if (clusters == 0) throw PathRefused("vocabloss: path cluster: no " + shape.describe() + " fits this device");
    count.store(clusters, std::memory_order_release);
    return clusters;
  }

 private:
  static void start(const cudaLaunchConfig_t& config, const Loss& loss, const RowCall<float>& call,
                    const ClusterLaunch& launch, const RankExchange& ranks, const ClusterShape& shape) {
    check_cluster_call(
        cudaLaunchKernelEx(&config, row_in_cluster<Loss, T, pass, Shape, RankExchange>, loss, call, launch, ranks),
        "cudaLaunchKernelEx", shape);
  }

  /// Whether all rows start on a granule.
  template <class Rows>
  static bool is_aligned(const Rows& stream, std::int64_t rows) {
    return reinterpret_cast<std::uintptr_t>(stream.data) % 16 == 0 &&
           (rows == 1 || stream.stride * static_cast<std::int64_t>(sizeof(T)) % 16 == 0);
  }

  static cudaLaunchConfig_t configuration(int width, int clusters, cudaStream_t stream, Attributes& attributes) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {static_cast<unsigned>(width), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(clusters * width);
    config.blockDim = dim3(Shape::block_threads);
    config.dynamicSmemBytes = dynamic_bytes;
    config.stream = stream;
    config.attrs = attributes.data();
    config.numAttrs = 1;
    return config;
  }
};

/// Calls `visitor` with the compile-time part of a shape; false if no such kernel is compiled. Four vectors a thread
/// take fewer instructions a column, but those of two streams do not fit the registers.
///
/// Groups are for one round of statistics. (Two rounds gain as well, with right results, JSD 7 % at 8192 columns
/// and 40 % at 2048: 4096 rows of bf16, NVIDIA H200, 2026-11-29, commit 46b7af3. But compute-sanitizer's racecheck
/// reports reads of a slot that no wait orders after its copy. Not explained yet.)
template <int Streams, int Rounds, class Visitor>
bool visit_consumer_shape(const ClusterShape& shape, Visitor&& visitor) {
  const auto matches = [&](auto candidate) {
    using Shape = decltype(candidate);
    const ClusterShape same{Shape::threads, Shape::vectors, Shape::blocks, shape.width, shape.ahead, Shape::groups};
    if (shape != same) return false;
    visitor(candidate);
    return true;
  };
  if constexpr (Streams == 1) {
    if (matches(ConsumerShape<256, 4, 1, 2>{})) return true;
  }
  if constexpr (Rounds == 1) {
    constexpr int vectors = Streams == 1 ? 4 : 2;
    if (matches(ConsumerShape<128, vectors, 1, 2, 2>{})) return true;
  }
  return matches(ConsumerShape<512, 2>{}) || matches(ConsumerShape<256, 2, 1, 2>{});
}

/// Zeroes a launch's tickets, once, before the first launch that uses them.
inline void cluster_initialise(ClusterTickets* tickets, cudaStream_t stream) {
  check_cluster_call(cudaMemsetAsync(tickets, 0, sizeof(ClusterTickets), stream), "cudaMemsetAsync", {});
}

template <class Loss, class Logit, Pass pass, class RankExchange>
void launch_cluster_of_shape(const Loss& loss, const RowCall<float>& call, const ClusterShape& shape,
                             ClusterTickets* tickets, cudaStream_t stream, const RankExchange& ranks) {
  const bool known = visit_consumer_shape<Loss::streams, Loss::rounds>(shape, [&](auto candidate) {
    using Shape = decltype(candidate);
    ClusterKernel<Loss, Logit, pass, Shape, RankExchange>::launch(loss, call, shape, tickets, stream, ranks);
  });
  if (!known) throw PathRefused("vocabloss: path cluster: no kernel of shape " + shape.describe());
}

/// A forward + backward on all multiprocessors, where wide clusters do not fill them: an H200 holds 30 clusters of four
/// blocks, one a multiprocessor, and 12 of its 132 multiprocessors are left over. There a second launch claims rows
/// from the same tickets, to the same bits. False: nothing is left over, or the rows are too few to gain by it.
///
/// It begins beside the first (programmatic dependent launch), and ends after it. Where it cannot begin so early, since
/// something else runs on the GPU, it finds no rows left and ends at once.
template <class Loss, class Logit>
bool launch_on_leftover_too(const Loss& loss, const RowCall<float>& call, const ClusterShape& shape,
                            ClusterTickets* tickets, cudaStream_t stream) {
  using Clusters = ClusterKernel<Loss, Logit, Pass::forward_backward, RereadingShape::OfCluster>;
  using Blocks = ClusterKernel<Loss, Logit, Pass::forward_backward, RereadingShape>;
  constexpr ClusterShape alike{RereadingShape::threads, RereadingShape::vectors, RereadingShape::blocks};
  if (shape.width == 1 || tickets == nullptr) return false;
  if (shape != ClusterShape{alike.threads, alike.vectors, alike.blocks, shape.width, shape.ahead}) return false;
  const int clusters = Clusters::resident_clusters(shape);
  const int leftover = Blocks::resident_clusters(alike) - clusters * shape.width;
  if (leftover <= 0 || call.rows < rows_worth_leftover * clusters) return false;
  Clusters::launch(loss, call, shape, tickets, stream, {}, leftover);
  Blocks::launch_beside(loss, call, shape, leftover, clusters, tickets, stream);
  return true;
}

/// Enqueues one launch, or one and another beside it. With tickets (device memory, zeroed once) rows go to whichever
/// cluster is free; null deals them round robin. The call's types, and the shape, are those that cluster_shapes.hpp
/// allows. Not null: a forward leaves the states of the rows in `states` (NoExchange).
template <class Loss, class Logit>
void launch_cluster(const Loss& loss, const RowCall<float>& call, Pass pass, const ClusterShape& shape,
                    ClusterTickets* tickets, cudaStream_t stream, float* states = nullptr) {
  if (call.rows == 0) return;
  const NoExchange alone{states};
  switch (pass) {
    case Pass::forward:
      return launch_cluster_of_shape<Loss, Logit, Pass::forward>(loss, call, shape, tickets, stream, alone);
    case Pass::backward:
      return launch_cluster_of_shape<Loss, Logit, Pass::backward>(loss, call, shape, tickets, stream, alone);
    case Pass::forward_backward:
      if constexpr (may_share_rows<Loss, Pass::forward_backward, RereadingShape::OfCluster>()) {
        if (launch_on_leftover_too<Loss, Logit>(loss, call, shape, tickets, stream)) return;
      }
      return launch_cluster_of_shape<Loss, Logit, Pass::forward_backward>(loss, call, shape, tickets, stream, alone);
  }
}

/// The same for a shard, with a forward or a forward + backward that exchanges states with the other ranks. (A backward
/// has the statistics of all ranks: launch_cluster runs it.) All ranks make the same launches in the same order.
template <class Loss, class Logit>
void launch_cluster_over_ranks(const Loss& loss, const RowCall<float>& call, Pass pass, const ClusterShape& shape,
                               ClusterTickets* tickets, const PeerExchange& ranks, cudaStream_t stream) {
  if (call.rows == 0) return;
  if (pass == Pass::forward) {
    launch_cluster_of_shape<Loss, Logit, Pass::forward>(loss, call, shape, tickets, stream, ranks);
  } else {
    launch_cluster_of_shape<Loss, Logit, Pass::forward_backward>(loss, call, shape, tickets, stream, ranks);
  }
}

}  // namespace vocabloss::Impl

#endif
