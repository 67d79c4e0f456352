// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Rows that blocks beside the clusters take (launch_on_leftover_too) have the same bits as the clusters', which
// cluster_check compares with the reference: a launch with tickets, which has such blocks where the device leaves any
// multiprocessor over, against one whose rows are dealt, which has none.
//   leftover_check [loss]    exit code 1 if any case fails, or if no such block took a row; 77 if the device has none

#include <vocabloss/impl/cuda/cluster_shipped.cuh>

#include "device_matrix.cuh"

#include <cmath>
#include <string>

namespace {

using namespace row_check;
using Impl::ClusterTickets;
using Impl::RowCall;

int failures = 0, cases = 0;

/// Values between -8 and 8, and in every 16th row one column that is almost all of its sum.
template <class T>
__global__ void fill(T* data, std::int64_t rows, int columns, std::int64_t stride, unsigned seed) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns; i += step) {
    const std::int64_t row = i / columns, column = i % columns;
    unsigned hash = static_cast<unsigned>(i * 2654435761u + seed * 40503u);
    hash = (hash ^ hash >> 15) * 0x2c1b3c6du;
    hash = (hash ^ hash >> 12) * 0x297a2d39u;
    float value = static_cast<float>(hash >> 8) * 0x1p-20f - 8.0f;
    if (row % 16 == 3 && column == row * 37 % columns) value = 60.0f;
    data[row * stride + column] = narrow<T>(value);
  }
}

/// Counts the bytes that differ.
__global__ void compare(const unsigned char* a, const unsigned char* b, std::int64_t bytes, unsigned long long* found) {
  unsigned long long count = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += step) {
    count += a[i] != b[i];
  }
  if (count) atomicAdd(found, count);
}

struct Buffer {
  unsigned char* data = nullptr;
  std::int64_t bytes;
  explicit Buffer(std::int64_t size) : bytes(size) { CUDA(cudaMalloc(&data, size)); }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
  void poison() const { CUDA(cudaMemset(data, 0xff, bytes)); }  // NaN in every type
  std::int64_t differs_from(const Buffer& other) const {
    unsigned long long* found = nullptr;
    CUDA(cudaMallocManaged(&found, sizeof *found));
    *found = 0;
    compare<<<1024, 256>>>(data, other.data, bytes, found);
    CUDA(cudaDeviceSynchronize());
    const std::int64_t count = static_cast<std::int64_t>(*found);
    CUDA(cudaFree(found));
    return count;
  }
};

/// A shape, and rows that it cuts into even slices, or not, from anywhere in a granule.
struct Layout {
  ClusterShape shape;
  std::int64_t rows;
  int columns, more;  ///< columns from a row's end to the next
  int offset;         ///< columns before the first row of the logits; the teacher has none
};
const Layout layouts[] = {{{512, 2, 1, 4, 1}, 1024, 65536, 0, 0},
                          {{512, 2, 1, 4, 2}, 1021, 50257, 0, 0},
                          {{512, 2, 1, 4, 64}, 1000, 33001, 5, 3},
                          {{512, 2, 1, 8, 2}, 500, 131075, 1, 1}};

template <template <class> class Loss, class T>
void check(const char* name, const char* type, const typename Loss<float>::Options& options, const Layout& layout,
           ClusterTickets* tickets) {
  using L = Loss<float>;
  const std::int64_t stride = layout.columns + layout.more;
  // Whole granules of 16 bytes, as bulk copies move them.
  const auto bytes = (static_cast<std::int64_t>(sizeof(T)) * (layout.rows * stride + layout.offset) + 15) / 16 * 16;
  constexpr int words = sizeof(typename L::Statistics) / sizeof(float);
  const Buffer x(bytes), t(bytes), mask(layout.rows), weights(layout.rows * 4);
  fill<<<1024, 256>>>(reinterpret_cast<float*>(weights.data), layout.rows, 1, 1, 3);
  fill<<<1024, 256>>>(reinterpret_cast<T*>(x.data) + layout.offset, layout.rows, layout.columns, stride, 1);
  fill<<<1024, 256>>>(reinterpret_cast<T*>(t.data), layout.rows, layout.columns, stride, 2);
  std::vector<std::uint8_t> counts(layout.rows, 1);
  for (std::int64_t i = 0; i < layout.rows; i += 7) counts[i] = 0;
  CUDA(cudaMemcpy(mask.data, counts.data(), layout.rows, cudaMemcpyHostToDevice));

  std::printf("%s %s %lld x %d, %s\n", name, type, static_cast<long long>(layout.rows), layout.columns,
              layout.shape.describe().c_str());
  auto scaled = options;
  scaled.logit_scale = 1.25;
  scaled.temperature = 2.0;
  const L plain_loss(options), scaled_loss(scaled);
  struct Outputs {
    Buffer gradient, losses, statistics;
  };
  const auto make = [&] { return Outputs{Buffer(bytes), Buffer(layout.rows * 4), Buffer(layout.rows * words * 4)}; };
  const Outputs dealt = make(), shared = make();
  enum class Kind { out_of_place, in_place, modified };
  const auto run = [&](const Outputs& out, ClusterTickets* from, Kind kind, cudaStream_t stream) {
    RowCall<float> call;
    call.rows = layout.rows;
    call.columns = layout.columns;
    call.vocab = layout.columns;
    unsigned char* const logits = kind == Kind::in_place ? out.gradient.data : x.data;
    call.logits = {reinterpret_cast<T*>(logits) + layout.offset, Precision<T>::type, stride};
    call.teacher = {t.data, Precision<T>::type, stride};
    call.gradient = {reinterpret_cast<T*>(out.gradient.data) + layout.offset, Precision<T>::type, stride};
    call.mask.data = mask.data;
    call.losses[0] = reinterpret_cast<float*>(out.losses.data);
    call.statistics = reinterpret_cast<float*>(out.statistics.data);
    if (kind == Kind::modified) {
      call.row_weights.data = call.upstream[0].data = reinterpret_cast<const float*>(weights.data);
      call.gradient_factor = 0.5f;
      call.gradient.accumulate = true;
    }
    const L& loss = kind == Kind::modified ? scaled_loss : plain_loss;
    Impl::launch_cluster<L, T>(loss, call, Pass::forward_backward, layout.shape, from, stream);
  };
  const auto expect_same = [&](const char* how, const Outputs& out) {
    ++cases;
    const std::int64_t differ = dealt.gradient.differs_from(out.gradient) + dealt.losses.differs_from(out.losses) +
                                dealt.statistics.differs_from(out.statistics);
    std::vector<float> losses(layout.rows);
    CUDA(cudaMemcpy(losses.data(), out.losses.data, layout.rows * 4, cudaMemcpyDeviceToHost));
    std::int64_t absurd = 0;
    for (std::int64_t i = 0; i < layout.rows; ++i) {
      absurd += counts[i] ? !std::isfinite(losses[i]) || losses[i] == 0 : losses[i] != 0;
    }
    if (differ == 0 && absurd == 0) return;
    ++failures;
    std::printf("  FAILED %s: %lld bytes differ, %lld losses are no losses\n", how, static_cast<long long>(differ),
                static_cast<long long>(absurd));
  };
  const auto poison = [](const Outputs& out) {
    out.gradient.poison();
    out.losses.poison();
    out.statistics.poison();
  };
  const auto start_in_place = [&](const Outputs& out) {
    poison(out);
    CUDA(cudaMemcpy(out.gradient.data, x.data, bytes, cudaMemcpyDeviceToDevice));
  };

  poison(dealt), poison(shared);
  run(dealt, nullptr, Kind::out_of_place, nullptr);
  run(shared, tickets, Kind::out_of_place, nullptr);
  expect_same("out of place", shared);

  start_in_place(dealt), start_in_place(shared);
  run(dealt, nullptr, Kind::in_place, nullptr);
  run(shared, tickets, Kind::in_place, nullptr);
  expect_same("in place", shared);

  // Scales, weights, upstream gradients, and a gradient that is added to what is there.
  start_in_place(dealt), start_in_place(shared);
  run(dealt, nullptr, Kind::modified, nullptr);
  run(shared, tickets, Kind::modified, nullptr);
  expect_same("modified and accumulated", shared);

  // Three launches captured and replayed twice: each begins when both launches of the one before have ended.
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t captured;
  CUDA(cudaStreamCreate(&stream));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 3; ++i) {
    CUDA(cudaMemsetAsync(shared.gradient.data, 0xff, shared.gradient.bytes, stream));
    run(shared, tickets, Kind::out_of_place, stream);
  }
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&captured, graph, 0));
  poison(dealt), poison(shared);
  run(dealt, nullptr, Kind::out_of_place, stream);
  for (int i = 0; i < 2; ++i) CUDA(cudaGraphLaunch(captured, stream));
  CUDA(cudaStreamSynchronize(stream));
  expect_same("captured", shared);
  CUDA(cudaGraphExecDestroy(captured));
  CUDA(cudaGraphDestroy(graph));

  // Launches of two streams compete for multiprocessors, so that some begin late, and beside others' clusters.
  const Outputs other = make();
  cudaStream_t second;
  CUDA(cudaStreamCreate(&second));
  poison(shared), poison(other);
  for (int i = 0; i < 3; ++i) {
    run(shared, tickets, Kind::out_of_place, stream);
    run(other, tickets + 1, Kind::out_of_place, second);
  }
  CUDA(cudaDeviceSynchronize());
  expect_same("beside another stream", shared);
  expect_same("beside another stream", other);
  CUDA(cudaStreamDestroy(second));
  CUDA(cudaStreamDestroy(stream));
}

template <template <class> class Loss>
void check_types(const char* name, const typename Loss<float>::Options& options, ClusterTickets* tickets) {
  for (Layout layout : layouts) {
    check<Loss, bfloat16>(name, "bf16", options, layout, tickets);
    layout.columns /= 2;  // as many bytes, for as long a row of floats
    check<Loss, float>(name, "fp32", options, layout, tickets);
  }
  check<Loss, float16>(name, "fp16", options, layouts[1], tickets);
}

/// Whether this device leaves any multiprocessor over. Of a kernel of so much shared memory one block runs on each.
bool leaves_any_over() {
  constexpr int bytes = Impl::cluster_shared_bytes(1);
  int device = 0, multiprocessors = 0, clusters = 0;
  CUDA(cudaGetDevice(&device));
  CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  CUDA(cudaFuncSetAttribute(compare, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  cudaLaunchAttribute width;
  width.id = cudaLaunchAttributeClusterDimension;
  width.val.clusterDim = {4, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(4);
  config.blockDim = dim3(256);
  config.dynamicSmemBytes = bytes;
  config.attrs = &width;
  config.numAttrs = 1;
  CUDA(cudaOccupancyMaxActiveClusters(&clusters, compare, &config));
  return 4 * clusters < multiprocessors;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace vocabloss::loss;
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  ClusterTickets* tickets = nullptr;
  CUDA(cudaMalloc(&tickets, 2 * sizeof *tickets));
  for (int i = 0; i < 2; ++i) Impl::cluster_initialise(tickets + i, nullptr);
  const auto wanted = [&](const char* loss) { return argc < 2 || std::string(argv[1]) == loss; };
  if (wanted("reverse_kl")) check_types<ReverseKl>("reverse_kl", {}, tickets);
  if (wanted("soft_cross_entropy")) check_types<SoftCrossEntropy>("soft_cross_entropy", {}, tickets);
  if (wanted("soft_cross_entropy_probabilities")) {
    check_types<SoftCrossEntropyProbabilities>("soft_cross_entropy_probabilities", {}, tickets);
  }
  if (wanted("forward_kl")) check_types<ForwardKl>("forward_kl", {}, tickets);
  if (wanted("jsd")) check_types<Jsd>("jsd", {}, tickets);

  ClusterTickets left, of_second;
  CUDA(cudaMemcpy(&left, tickets, sizeof left, cudaMemcpyDeviceToHost));
  CUDA(cudaMemcpy(&of_second, tickets + 1, sizeof of_second, cudaMemcpyDeviceToHost));
  if (left.next != 0 || left.finished != 0 || of_second.next != 0 || of_second.finished != 0) {
    ++failures, std::printf("FAILED: tickets were left behind\n");
  }
  const bool has_any = leaves_any_over();
  if (has_any && left.beside == 0) ++failures, std::printf("FAILED: no block beside the clusters took a row\n");
  std::printf("leftover_check: %d cases, %u rows beside the clusters, %d failed: %s\n", cases, left.beside, failures,
              failures ? "FAILED" : "passed");
  if (!has_any) std::printf("SKIPPED: clusters of four blocks fill this device, so no block ran beside them\n");
  return failures ? 1 : has_any ? 0 : 77;
}
