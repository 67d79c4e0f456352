// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Checks path `split` on a device against the serial double reference, then times it.
//   split_check [check [loss [most elements of a case]]]    checks; exit code 1 if any fails
//   split_check time        times, beside a kernel that streams the same bytes
//   split_check sweep       times by group size: the evidence for split_shapes.hpp

#include "split_check_losses.cuh"
#include "split_check_run.cuh"
#include "split_check_timing.cuh"

#include <cstring>

namespace split_check {

std::vector<Case> cases() {
  constexpr DataType bf16 = DataType::bf16, fp16 = DataType::fp16, fp32 = DataType::fp32;
  std::vector<Case> list;
  for (const DataType type : {bf16, fp16, fp32}) {
    for (const std::int64_t columns : {1, 2, 7, 33, 4097, 50257}) {
      Case c{
          .what = "columns", .type = type, .teacher_type = type, .gradient_type = type, .rows = 5, .columns = columns};
      list.push_back(c);
      c.what = "special", c.special = true, c.rows = 23, c.pad = 5, c.offset = c.teacher_offset = c.gradient_offset = 3;
      c.long_labels = columns % 2;
      list.push_back(c);
      c.what = "phases differ", c.offset = 1, c.teacher_offset = 2, c.gradient_offset = 5, c.accumulate = true;
      c.two_calls = columns > 33;
      list.push_back(c);
      c.what = "in place", c.teacher_offset = 1, c.accumulate = false, c.in_place = true;
      list.push_back(c);
      c.what = "float teacher and gradient", c.in_place = false, c.teacher_type = c.gradient_type = fp32;
      c.accumulate = columns % 2, c.gradient_offset = columns == 33 ? 1 : 0, c.teacher_offset = 0, c.pad = 3;
      list.push_back(c);
    }
    Case c{.what = "131072", .type = type, .teacher_type = type, .gradient_type = type, .rows = 1, .columns = 131072};
    for (const int rows : {1, 8, 64, 131}) {
      if (rows > 8 && type != bf16) continue;
      c.rows = rows;
      list.push_back(c);
    }
    c = {.what = "group", .type = type, .teacher_type = type, .gradient_type = type, .rows = 9, .columns = 20011};
    c.special = true, c.offset = c.teacher_offset = c.gradient_offset = 1;
    for (const int group : {1, 2, 7, 33, 129, 256}) {
      c.group = group;
      list.push_back(c);
      c.two_calls = !c.two_calls;
    }
    // Few groups, long slices: rows follow one another through the ring, and slices outgrow it.
    c.what = "ring", c.special = false, c.two_calls = false, c.group = 2, c.most_rows = 2, c.rows = 7;
    for (const std::int64_t columns : {3000, 40000, 60000, 90001, 300000}) {
      c.columns = columns;
      for (int k = 0; k < 3; ++k) {
        c.two_calls = k == 1, c.in_place = k == 2;
        c.special = columns == 40000;
        list.push_back(c);
      }
    }
    c = {.what = "long", .type = type, .teacher_type = type, .gradient_type = type, .rows = 3, .columns = 1048579};
    c.in_place = true;
    list.push_back(c);
    c = {.what = "peaked", .type = type, .teacher_type = type, .gradient_type = type, .rows = 4, .columns = 50257};
    c.spread = 6;
    list.push_back(c);
  }
  return list;
}

int check(const std::string& only, std::int64_t most_elements) {
  int failed = 0, count = 0;
  for (const LossEntry& loss : losses()) {
    if (!only.empty() && only != loss.name) continue;
    int failed_here = 0;
    for (const Case& c : cases()) {
      if (c.rows * c.columns > most_elements) continue;
      Run run(loss, c);
      const std::string wrong = run.check();
      ++count;
      if (wrong.empty()) continue;
      ++failed;
      if (++failed_here > 6) continue;
      std::printf("FAILED %s, %s: %s %lld x %lld pad %d offsets %d %d %d teacher %s gradient %s%s%s%s, %s: %s\n",
                  loss.name, c.what, name_of(c.type), static_cast<long long>(c.rows), static_cast<long long>(c.columns),
                  c.pad, c.offset, c.teacher_offset, c.gradient_offset, name_of(c.teacher_type),
                  name_of(c.gradient_type), c.in_place ? " in place" : "", c.accumulate ? " accumulate" : "",
                  c.two_calls ? " two calls" : "", run.shape().describe().c_str(), wrong.c_str());
    }
    std::fflush(stdout);
  }
  std::printf("%d cases, %d failed\n", count, failed);
  return failed;
}

/// Two plans on two streams at once, each a grid as large as the device, launched many times; then the same bits must
/// stand as after one launch. Replays of a graph advance the exchanges like launches do.
int check_streams_and_graphs() {
  int failed = 0;
  const LossEntry loss = entry<loss::ReverseKl>("reverse_kl");
  Timing one(4, 65536, 2), two(4, 65536, 2);
  const SplitShape shape{33, 4, 132 * Impl::split_blocks};
  cudaStream_t streams[2];
  void* workspaces[2];
  for (int k = 0; k < 2; ++k) {
    CUDA(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
    CUDA(cudaMalloc(&workspaces[k], loss.workspace_bytes(shape)));
    Impl::split_initialise(workspaces[k], loss.workspace_bytes(shape), streams[k]);
  }
  const auto losses_of = [&](const Timing& timing, int set) {
    std::vector<float> values(4);
    CUDA(cudaMemcpy(values.data(), timing.call(set).losses[0], 16, cudaMemcpyDeviceToHost));
    return values;
  };
  CUDA(cudaDeviceSynchronize());
  loss.launch(DataType::bf16, one.call(0), Pass::forward_backward, shape, workspaces[0], streams[0]);
  CUDA(cudaDeviceSynchronize());
  const std::vector<float> first = losses_of(one, 0);
  for (int k = 0; k < 300; ++k) {
    loss.launch(DataType::bf16, one.call(k % 2), Pass::forward_backward, shape, workspaces[0], streams[0]);
    loss.launch(DataType::bf16, two.call(k % 2), Pass::forward_backward, shape, workspaces[1], streams[1]);
  }
  CUDA(cudaDeviceSynchronize());
  if (losses_of(one, 0) != first || losses_of(two, 0) != first) ++failed, std::printf("FAILED two streams\n");

  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CUDA(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
  loss.launch(DataType::bf16, one.call(0), Pass::forward_backward, shape, workspaces[0], streams[0]);
  CUDA(cudaStreamEndCapture(streams[0], &graph));
  CUDA(cudaGraphInstantiate(&executable, graph, 0));
  const std::vector<float> other = losses_of(one, 1);
  for (int k = 0; k < 20; ++k) {
    // New data each time: the other set's rows, then the first set's again.
    void* x = const_cast<void*>(one.call(0).logits.data);
    void* t = const_cast<void*>(one.call(0).teacher.data);
    const Timing& source = k % 2 ? two : one;
    const int set = k % 2 ? 0 : 1;
    CUDA(cudaMemcpy(x, source.call(set).logits.data, 4 * 65536 * 2, cudaMemcpyDeviceToDevice));
    CUDA(cudaMemcpy(t, source.call(set).teacher.data, 4 * 65536 * 2, cudaMemcpyDeviceToDevice));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaGraphLaunch(executable, streams[0]));
    CUDA(cudaDeviceSynchronize());
    if (losses_of(one, 0) != (k % 2 ? first : other)) ++failed, std::printf("FAILED graph replay %d\n", k);
  }
  RowCall<float> empty = one.call(0);
  empty.rows = 0;
  loss.launch(DataType::bf16, empty, Pass::forward_backward, shape, workspaces[0], streams[0]);
  try {
    const SplitShape large{500, 4, 2000};
    loss.launch(DataType::bf16, one.call(0), Pass::forward_backward, large, workspaces[0], streams[0]);
    ++failed, std::printf("FAILED: 2000 blocks were not refused\n");
  } catch (const PathRefused& refusal) {
    std::printf("refused as it should be: %s\n", refusal.what());
  }
  CUDA(cudaDeviceSynchronize());
  return failed;
}

void time_all(bool sweep) {
  int sm_count = 0;
  CUDA(cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, 0));
  struct Shape {
    std::int64_t rows, columns;
  };
  const std::vector<Shape> shapes = {{1, 131072},  {2, 131072},   {8, 131072},   {32, 131072},
                                     {64, 131072}, {131, 131072}, {131, 32768},  {1, 32768},
                                     {8, 50257},   {64, 524288},  {16, 1048576}, {64, 2097152}};
  for (const LossEntry& loss : losses()) {
    const std::string name = loss.name;
    if (name != "reverse_kl" && name != "cross_entropy" && (sweep || name != "jsd")) continue;
    for (const Shape& s : shapes) {
      Timing timing(s.rows, s.columns, loss.streams);
      const SplitShape chosen =
          Impl::choose_split_shape(s.rows, s.columns, loss.streams, DataType::bf16, sm_count, loss.blocks_each);
      const float stream = timing.of_stream();
      const float time = timing.of_loss(loss, Pass::forward_backward, chosen);
      std::printf(
          "%-14s %4lld x %-8lld stream %8.2f us  ours %8.2f us  share %.3f  forward %8.2f us  backward %8.2f us  %s\n",
          loss.name, static_cast<long long>(s.rows), static_cast<long long>(s.columns), stream, time, stream / time,
          timing.of_loss(loss, Pass::forward, chosen), timing.of_loss(loss, Pass::backward, chosen),
          chosen.describe().c_str());
      if (!sweep) continue;
      for (const int group : {1, 2, 3, 4, 6, 8, 11, 12, 16, 22, 24, 32, 44, 48, 64, 66, 96, 132, 192, 256}) {
        const int blocks = sm_count * Impl::split_blocks;
        SplitShape shape{group, static_cast<int>(std::min<std::int64_t>(s.rows, blocks / group)), blocks};
        if (group > blocks || (s.columns >= 524288 && group < 3)) continue;
        std::printf("   %d:%.2f", group, timing.of_loss(loss, Pass::forward_backward, shape));
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace split_check

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "check";
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);
  if (what == "time" || what == "sweep") {
    split_check::time_all(what == "sweep");
    return 0;
  }
  const std::string only = argc > 2 && std::strcmp(argv[2], "all") != 0 ? argv[2] : "";
  const std::int64_t most_elements = argc > 3 ? std::atoll(argv[3]) : std::int64_t(1) << 40;
  const int failed = split_check::check_streams_and_graphs() + split_check::check(only, most_elements);
  std::printf(failed ? "FAILED\n" : "all well\n");
  return failed ? 1 : 0;
}
