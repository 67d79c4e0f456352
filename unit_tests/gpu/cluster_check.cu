// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Checks path `cluster` on a device against the serial double reference.
//   cluster_check [loss [most elements of a case]]    exit code 1 if any fails

#include "row_check_run.cuh"

#include <vocabloss/impl/cuda/cluster_shipped.cuh>

#include <cstring>

namespace cluster_check {

using namespace row_check;
using Impl::ClusterShape;
using Impl::ClusterTickets;

/// What the launches below use: a shape that the case asks for, or the table's; with tickets, or dealt round robin.
const ClusterShape* forced_shape = nullptr;
ClusterTickets* tickets = nullptr;

template <template <class> class Loss>
LossEntry entry(const char* name, LossOptions options = {}) {
  using L = Loss<float>;
  LossEntry result{
      name, L::streams, L::needs_label, L::teacher_is_logits, L::outputs, int(sizeof(typename L::Statistics) / 4),
      {},   {}};
  result.launch = [options](DataType type, const RowCall<float>& call, Pass pass, cudaStream_t stream) {
    const L loss(options);
    const ClusterShape* shape =
        forced_shape ? forced_shape : Impl::choose_cluster_shape(call.columns, type, L::streams, L::rounds);
    if (type == DataType::bf16) Impl::launch_cluster<L, bfloat16>(loss, call, pass, *shape, tickets, stream);
    if (type == DataType::fp16) Impl::launch_cluster<L, float16>(loss, call, pass, *shape, tickets, stream);
    if (type == DataType::fp32) Impl::launch_cluster<L, float>(loss, call, pass, *shape, tickets, stream);
  };
  result.expected = [options](const reference::RowInput& row) {
    return reference::evaluate(Loss<double>(options), row);
  };
  return result;
}

struct Entry {
  LossEntry loss;
  int rounds;
};

std::vector<Entry> losses() {
  LossOptions scaled;
  scaled.logit_scale = 1.25, scaled.teacher_scale = 0.75, scaled.temperature = 2, scaled.jsd_beta = 0.2;
  return {{entry<loss::CrossEntropy>("cross_entropy"), 1},
          {entry<loss::LogProb>("log_prob"), 1},
          {entry<loss::SoftCrossEntropy>("soft_cross_entropy"), 1},
          {entry<loss::SoftCrossEntropyProbabilities>("soft_cross_entropy_probabilities"), 1},
          {entry<loss::ForwardKl>("forward_kl"), 1},
          {entry<loss::ReverseKl>("reverse_kl"), 1},
          {entry<loss::Jsd>("jsd"), 2},
          {entry<loss::ZLoss>("z_loss"), 1},
          {entry<loss::Entropy>("entropy"), 1},
          {entry<loss::LogProbEntropy>("log_prob_entropy"), 1},
          {entry<loss::Jsd>("jsd(0.2), scaled", scaled), 2},
          {entry<loss::ReverseKl>("reverse_kl, scaled", scaled), 1}};
}

std::vector<Case> cases(DataType type) {
  std::vector<Case> list;
  for (const std::int64_t columns : {1, 2, 7, 8, 9, 31, 32, 33, 4095, 4096, 4097, 8192, 50257, 50304}) {
    Case c{.what = "columns", .type = type, .teacher_type = type, .gradient_type = type, .rows = 5, .columns = columns};
    list.push_back(c);
    c.what = "special", c.special = true, c.rows = 23, c.pad = 5, c.offset = c.teacher_offset = c.gradient_offset = 3;
    c.long_labels = columns % 2;
    list.push_back(c);
    c.what = "phases differ", c.offset = 1, c.teacher_offset = 2, c.gradient_offset = 5, c.accumulate = true;
    c.two_calls = columns > 33;
    list.push_back(c);
    c.what = "phases differ", c.pad = 0, c.accumulate = false, c.two_calls = !c.two_calls;
    list.push_back(c);
    c.what = "in place", c.teacher_offset = 1, c.accumulate = false, c.in_place = true;
    list.push_back(c);
  }
  for (const std::int64_t columns : {131072, 262144}) {
    list.push_back({.what = "long",
                    .type = type,
                    .teacher_type = type,
                    .gradient_type = type,
                    .rows = 6,
                    .columns = type == DataType::fp32 ? columns / 2 : columns,
                    .in_place = columns == 131072});
  }
  Case many{
      .what = "many rows", .type = type, .teacher_type = type, .gradient_type = type, .rows = 1500, .columns = 1025};
  many.special = true, many.offset = many.teacher_offset = many.gradient_offset = 1;
  list.push_back(many);
  Case peaked{.what = "peaked", .type = type, .teacher_type = type, .gradient_type = type, .rows = 4, .columns = 50257};
  peaked.spread = 6;
  list.push_back(peaked);
  return list;
}

/// Shapes that the table does not choose for these cases, so that every width and lag meets odd rows.
std::vector<ClusterShape> forced_shapes(int streams) {
  if (streams == 1)
    return {{512, 2, 1, 1, 3}, {512, 2, 1, 2, 1}, {256, 2, 2, 4, 0}, {512, 2, 1, 8, 2}, {256, 2, 2, 2, 1}};
  return {{256, 2, 1, 2, 1}, {256, 4, 1, 4, 0}, {256, 2, 2, 8, 0}, {256, 4, 1, 8, 1}, {256, 2, 1, 1, 0}};
}

int failed = 0, checked = 0;

void check(const Entry& entry, const Case& c) {
  Run run(entry.loss, c);
  const std::string wrong = run.check();
  ++checked;
  if (wrong.empty()) return;
  static std::string reported;
  ++failed;
  static int count = 0;
  if (reported != entry.loss.name) reported = entry.loss.name, count = 0;
  if (++count > 5) return;
  std::printf("FAILED %s, %s: %s %lld x %lld pad %d offsets %d %d %d%s%s%s, %s%s: %s\n", entry.loss.name, c.what,
              name_of(c.type), static_cast<long long>(c.rows), static_cast<long long>(c.columns), c.pad, c.offset,
              c.teacher_offset, c.gradient_offset, c.in_place ? " in place" : "", c.accumulate ? " accumulate" : "",
              c.two_calls ? " two calls" : "", forced_shape ? forced_shape->describe().c_str() : "chosen",
              tickets ? " tickets" : "", wrong.c_str());
  std::fflush(stdout);
}

void check_all(const std::string& only, std::int64_t most_elements) {
  ClusterTickets* device_tickets = nullptr;
  CUDA(cudaMalloc(&device_tickets, sizeof(ClusterTickets)));
  Impl::cluster_initialise(device_tickets, nullptr);
  for (const Entry& entry : losses()) {
    if (!only.empty() && only != entry.loss.name) continue;
    for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32}) {
      int index = 0;
      for (const Case& c : cases(type)) {
        if (c.rows * c.columns > most_elements) continue;
        forced_shape = nullptr;
        tickets = device_tickets;
        check(entry, c);
        const std::vector<ClusterShape> shapes = forced_shapes(entry.loss.streams);
        const ClusterShape& shape = shapes[index++ % shapes.size()];
        if (!shape.holds(Impl::vectors_of(c.columns, type), entry.loss.streams, entry.rounds)) continue;
        forced_shape = &shape;
        if (index % 2) tickets = nullptr;
        check(entry, c);
      }
    }
    std::printf("%s: %d cases so far, %d failed\n", entry.loss.name, checked, failed);
    std::fflush(stdout);
  }
  ClusterTickets left;
  CUDA(cudaMemcpy(&left, device_tickets, sizeof left, cudaMemcpyDeviceToHost));
  if (left.next != 0 || left.finished != 0) ++failed, std::printf("FAILED: tickets were left behind\n");
}

}  // namespace cluster_check

int main(int argc, char** argv) {
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);
  const std::string only = argc > 1 && std::strcmp(argv[1], "all") != 0 ? argv[1] : "";
  cluster_check::check_all(only, argc > 2 ? std::atoll(argv[2]) : INT64_C(1) << 40);
  std::printf("%d cases, %d failed: %s\n", cluster_check::checked, cluster_check::failed,
              cluster_check::failed ? "FAILED" : "all well");
  return cluster_check::failed ? 1 : 0;
}
