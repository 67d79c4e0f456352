// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// A shared vocabulary over NCCL, a GPU a rank: the right values, the same bits on all ranks, and CUDA graphs.

#include <gtest/gtest.h>
#include <vocabloss/comm/concept.hpp>
#include <vocabloss/comm/nccl.hpp>

#include <cstdint>
#include <string>
#include <utility>

#include "comm/support/run_shared.hpp"
#include "comm/support/shared.hpp"
#include "support/check.hpp"

namespace {

using namespace test;
using vocabloss::comm::Nccl;

static_assert(vocabloss::comm::VocabCommunicator<Nccl, Kokkos::Cuda>);
static_assert(!std::is_copy_constructible_v<Nccl> && std::is_nothrow_move_constructible_v<Nccl>);

Nccl make_nccl() {
  const auto broadcast = [](void* bytes, std::size_t count) {
    MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, 0, MPI_COMM_WORLD);
  };
  return Nccl::create(rank_in(MPI_COMM_WORLD), size_of(MPI_COMM_WORLD), broadcast,
                      {.time_limit = std::chrono::seconds(20)});
}

class OverNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
    if (devices < size_of(MPI_COMM_WORLD)) GTEST_SKIP() << "a GPU a rank is needed, and there are " << devices;
  }

  template <class Tag, class Logit>
  void expect_right_values(Call call, const Cut& cut, const SharedRequest& request) {
    call.store_as(vocabloss::Precision<Logit>::type);
    const LossEntry& loss = loss_named(Tag::name);
    const VocabPartition partition = partition_of(cut, rank_in(MPI_COMM_WORLD));
    SCOPED_TRACE(describe(loss, call) + ", cut " + describe(cut) + ", " + std::string(name_of(request.path)) + ", " +
                 std::string(name_of(request.exchange)));
    const Call shard = shard_of(call, partition);
    Nccl nccl = make_nccl();
    const Outputs actual = run_shared_as<Tag, Logit>(nccl, shard, partition, request);
    expect_right_outputs(MPI_COMM_WORLD, loss, call, cut, actual);
  }

  template <class Tag, class Logit>
  void expect_all(std::int64_t rows, std::int64_t vocab) {
    const Call call = ordinary_call(loss_named(Tag::name), rows, vocab);
    for (SharedRequest request :
         {SharedRequest{.path = Path::team, .exchange = Exchange::allgather},
          SharedRequest{.path = Path::team, .exchange = Exchange::allgather, .block_rows = 2},
          SharedRequest{.path = Path::team, .exchange = Exchange::two_allreduce},
          SharedRequest{.exchange = Exchange::allgather},  // path cluster, where the type and the loss have it
          SharedRequest{.exchange = Exchange::allgather, .block_rows = 2},
          SharedRequest{.exchange = Exchange::two_allreduce}, SharedRequest{.path = Path::gather},
          SharedRequest{.path = Path::naive, .exchange = Exchange::two_allreduce}}) {
      for (const Cut& cut : cuts_of(vocab, size_of(MPI_COMM_WORLD)))
        expect_right_values<Tag, Logit>(call, cut, request);
    }
  }
};

TEST_F(OverNccl, ReverseKl) {
  expect_all<ReverseKl, vocabloss::bfloat16>(7, 257);
  expect_all<ReverseKl, double>(7, 129);
}
TEST_F(OverNccl, CrossEntropy) { expect_all<CrossEntropy, vocabloss::bfloat16>(7, 257); }
TEST_F(OverNccl, JsdInTwoRounds) { expect_all<Jsd, float>(7, 257); }

TEST_F(OverNccl, MovesAndBorrows) {
  Nccl first = make_nccl();
  Nccl second = std::move(first);
  second = make_nccl();
  EXPECT_EQ(second.size(), size_of(MPI_COMM_WORLD));
  EXPECT_EQ(second.poll_error(), "");
  EXPECT_NE(second.describe(Exec()).find("nccl "), std::string::npos);
}

/// Captured once, replayed with other data: what an eager call gives, in the order of the caller's stream only.
void expect_captured(const vocabloss::PlanRequest& request) {
  using Plan = vocabloss::Plan<vocabloss::loss::ReverseKl, float, Kokkos::Cuda, Nccl>;
  SCOPED_TRACE(std::string(name_of(request.path)) + ", " + std::string(name_of(request.exchange)));
  const std::int64_t rows = 9, columns = 64;
  const int rank = rank_in(MPI_COMM_WORLD), ranks = size_of(MPI_COMM_WORLD);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    const Kokkos::Cuda exec(stream);
    const Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::Cuda> x("test", rows, columns), t("test", rows, columns),
        dx("test", rows, columns), eager_dx("test", rows, columns);
    const Kokkos::View<float*, Kokkos::Cuda> losses("test", rows), eager_losses("test", rows);
    vocabloss::Batch<float, Kokkos::Cuda> batch;
    batch.logits(x).teacher(t).losses(losses).gradient(dx).partition({columns * ranks, columns * rank, columns});
    Nccl nccl = make_nccl();
    const Plan plan(exec, nccl, batch, {}, request);
    EXPECT_EQ(plan.launch().path, request.path);
    plan.forward_backward(exec, batch);  // once before: connections are made here
    plan.wait(exec);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t runnable = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    plan.forward_backward(exec, batch);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&runnable, graph, 0), cudaSuccess);
    for (int round = 0; round < 3; ++round) {
      auto host_x = Kokkos::create_mirror_view(x);
      auto host_t = Kokkos::create_mirror_view(t);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          host_x(i, j) = float((i * 7 + j * 13 + rank * 5 + round) % 31) / 5;
          host_t(i, j) = float((i * 3 + j * 11 + rank * 2 + round) % 29) / 7;
        }
      }
      Kokkos::deep_copy(x, host_x);
      Kokkos::deep_copy(t, host_t);
      ASSERT_EQ(cudaGraphLaunch(runnable, stream), cudaSuccess);
      plan.wait(exec);
      vocabloss::Batch<float, Kokkos::Cuda> eager = batch;
      plan.forward_backward(exec, eager.losses(eager_losses).gradient(eager_dx));
      plan.wait(exec);
      const auto a = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, losses);
      const auto b = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, eager_losses);
      const auto da = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, dx);
      const auto db = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, eager_dx);
      for (std::int64_t i = 0; i < rows; ++i) {
        EXPECT_EQ(a(i), b(i)) << "row " << i << " of round " << round;
        for (std::int64_t j = 0; j < columns; ++j) EXPECT_EQ(da(i, j), db(i, j));
      }
    }
    cudaGraphExecDestroy(runnable);
    cudaGraphDestroy(graph);
  }
  cudaStreamDestroy(stream);
}

TEST_F(OverNccl, A64_A65_A66_CapturedInAGraph) {
  expect_captured({.path = Path::team, .block_rows = 2});
  expect_captured({.path = Path::team, .exchange = Exchange::two_allreduce});
}

#if defined(VOCABLOSS_WITH_CUDA_PATHS)
TEST_F(OverNccl, A64_A65_A66_ClusterCapturedInAGraph) {
  expect_captured({.path = Path::cluster});
  expect_captured({.path = Path::cluster, .block_rows = 4});
  expect_captured({.path = Path::cluster, .exchange = Exchange::two_allreduce});
}
#endif

}  // namespace
