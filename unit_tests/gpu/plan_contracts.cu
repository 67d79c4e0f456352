// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// What a Plan promises on a GPU, through the public Plan alone: its calls only enqueue, can be captured, run beside one
// another, and give the same bits.

#include "plan_rows.cuh"

namespace plan_contracts {

using vocabloss::Plan;
using ReverseKl = Plan<vocabloss::loss::ReverseKl, bfloat16, Exec>;

class PlanContracts : public ::testing::TestWithParam<Path> {
 protected:
  Stream one, two;
};
INSTANTIATE_TEST_SUITE_P(Paths, PlanContracts, ::testing::Values(Path::cluster, Path::split, Path::team),
                         [](const auto& info) { return std::string(vocabloss::name_of(info.param)); });

/// A forward and a backward, or both in one call.
void call(const ReverseKl& plan, const Exec& exec, const Rows& rows, bool in_two) {
  if (in_two) {
    plan.forward(exec, rows.batch());
    plan.backward(exec, rows.batch());
  } else {
    plan.forward_backward(exec, rows.batch());
  }
}

struct Shape {
  std::int64_t rows, columns;
};
/// `split` is for few rows; the other two get more rows than the device runs at once. The rows of 50257 are misaligned.
Shape shape_of(Path path) { return path == Path::split ? Shape{5, 131072} : Shape{301, 50257}; }

struct Graph {
  cudaGraphExec_t executable = nullptr;

  /// Captures what `enqueue` does. Mode global: an allocation or a wait of any kind makes the capture fail.
  template <class Enqueue>
  Graph(cudaStream_t stream, const Enqueue& enqueue) {
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    enqueue();
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    cudaGraphDestroy(graph);
  }
  ~Graph() { cudaGraphExecDestroy(executable); }
};

TEST_P(PlanContracts, AGraphReplayedOnNewDataGivesTheEagerBits) {
  const Shape shape = shape_of(GetParam());
  const Rows rows(shape.rows, shape.columns);
  for (const bool in_two : {false, true}) {
    const ReverseKl plan(one.exec, rows.batch(), {}, {.path = GetParam()});
    // Captured before any call was made: even the first allocates nothing and does not wait.
    const Graph graph(one.stream, [&] { call(plan, one.exec, rows, in_two); });
    ASSERT_NE(graph.executable, nullptr);
    for (const std::uint64_t seed : {1, 2, 1}) {
      rows.set(one.exec, seed);
      call(plan, one.exec, rows, in_two);
      const Bits eager = rows.bits(one.exec);
      rows.forget(one.exec);
      CUDA_OK(cudaGraphLaunch(graph.executable, one.stream));
      EXPECT_TRUE(rows.bits(one.exec) == eager) << "seed " << seed << (in_two ? ", two calls" : "");
    }
  }
}

TEST_P(PlanContracts, TwoPlansOnTwoStreamsGiveTheBitsOfOneAfterTheOther) {
  const Shape shape = shape_of(GetParam());
  for (const Path other : {GetParam(), Path::cluster}) {
    const Rows first(shape.rows, shape.columns), second(shape_of(other).rows, shape_of(other).columns);
    const ReverseKl plan(one.exec, first.batch(), {}, {.path = GetParam()});
    const ReverseKl beside(two.exec, second.batch(), {}, {.path = other});
    first.set(one.exec, 1);
    second.set(two.exec, 2);
    call(plan, one.exec, first, false);
    const Bits alone = first.bits(one.exec);
    call(beside, two.exec, second, false);
    const Bits second_alone = second.bits(two.exec);
    first.forget(one.exec), second.forget(two.exec);
    for (int k = 0; k < 100; ++k) {
      call(plan, one.exec, first, k % 2 == 0);  // the last ones in one call, as before
      call(beside, two.exec, second, k % 3 == 1);
    }
    EXPECT_TRUE(first.bits(one.exec) == alone) << "beside " << vocabloss::name_of(other);
    EXPECT_TRUE(second.bits(two.exec) == second_alone) << "beside " << vocabloss::name_of(other);
  }
}

TEST_P(PlanContracts, TwentyRunsGiveTheSameBits) {
  const Shape shape = shape_of(GetParam());
  const Rows rows(shape.rows, shape.columns);
  const ReverseKl plan(one.exec, rows.batch(), {}, {.path = GetParam()});
  rows.set(one.exec, 3);
  call(plan, one.exec, rows, false);
  const Bits first = rows.bits(one.exec);
  for (int k = 1; k < 20; ++k) {
    rows.forget(one.exec);
    call(plan, one.exec, rows, false);
    ASSERT_TRUE(rows.bits(one.exec) == first) << "run " << k;
  }
}

/// Of more than nothing: Kokkos asks for 0 bytes of team scratch at every TeamPolicy.
int allocations = 0, fences = 0;

TEST_P(PlanContracts, ACallNeitherAllocatesNorFences) {
  const Shape shape = shape_of(GetParam());
  const Rows rows(shape.rows, shape.columns);
  const ReverseKl plan(one.exec, rows.batch(), {}, {.path = GetParam()});
  rows.set(one.exec, 4);
  one.exec.fence();
  namespace Tools = Kokkos::Tools::Experimental;
  Tools::set_allocate_data_callback(
      [](Kokkos_Profiling_SpaceHandle, const char*, const void*, std::uint64_t bytes) { allocations += bytes > 0; });
  Tools::set_begin_fence_callback([](const char*, std::uint32_t, std::uint64_t*) { ++fences; });
  std::size_t free_before = 0, free_after = 0, total = 0;
  CUDA_OK(cudaMemGetInfo(&free_before, &total));
  allocations = fences = 0;
  for (int k = 0; k < 6; ++k) call(plan, one.exec, rows, k % 2 == 1);
  const int allocated = allocations, fenced = fences;
  CUDA_OK(cudaMemGetInfo(&free_after, &total));
  Tools::set_allocate_data_callback(nullptr);
  Tools::set_begin_fence_callback(nullptr);
  EXPECT_EQ(allocated, 0);
  EXPECT_EQ(fenced, 0);
  EXPECT_EQ(free_before, free_after);
}

/// Runs until the host says stop, or for some seconds if nobody does.
__global__ void spin(const volatile int* stop) {
  const long long begin = clock64();
  while (*stop == 0 && clock64() - begin < 6'000'000'000LL) {
  }
}

TEST_P(PlanContracts, ACallReturnsWhileTheStreamIsBusy) {
  const Shape shape = shape_of(GetParam());
  const Rows rows(shape.rows, shape.columns);
  const ReverseKl plan(one.exec, rows.batch(), {}, {.path = GetParam()});
  rows.set(one.exec, 5);
  call(plan, one.exec, rows, false);
  const Bits idle = rows.bits(one.exec);
  rows.forget(one.exec);
  int* stop = nullptr;
  CUDA_OK(cudaHostAlloc(&stop, sizeof(int), cudaHostAllocMapped));
  *static_cast<volatile int*>(stop) = 0;
  one.exec.fence();
  spin<<<1, 1, 0, one.stream>>>(stop);
  call(plan, one.exec, rows, true);
  call(plan, one.exec, rows, false);
  const cudaError_t state = cudaStreamQuery(one.stream);
  *static_cast<volatile int*>(stop) = 1;
  EXPECT_EQ(state, cudaErrorNotReady) << "the calls waited for the kernel before them";
  EXPECT_TRUE(rows.bits(one.exec) == idle);
  cudaFreeHost(stop);
}

}  // namespace plan_contracts
