// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// States that cross between GPUs inside the kernel: the right values, the same bits on all ranks, repeated and captured
// launches, late ranks and lost ones.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>

#include "comm/support/run_shared.hpp"
#include "comm/support/shared.hpp"
#include "support/check.hpp"

namespace {

using namespace test;
using std::chrono::milliseconds;
using vocabloss::bfloat16;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

class InKernel : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "a GPU is needed";
  }

  static int rank() { return rank_in(MPI_COMM_WORLD); }
  static int ranks() { return size_of(MPI_COMM_WORLD); }
  static SharedRequest request() { return {.path = Path::cluster, .exchange = Exchange::in_kernel}; }
  /// A plan of one rank alone has nothing to exchange, and runs path cluster.
  static SharedRequest request(const std::string& variant) {
    SharedRequest one = request();
    one.variant = variant;
    return one;
  }

  template <class Tag, class Logit>
  static void expect_right_values(Call call, const Cut& cut, const SharedRequest& request) {
    call.store_as(vocabloss::Precision<Logit>::type);
    const LossEntry& loss = loss_named(Tag::name);
    const VocabPartition partition = partition_of(cut, rank());
    SCOPED_TRACE(describe(loss, call) + ", cut " + describe(cut) + ", " + request.variant);
    Mpi mpi = Mpi::duplicate(MPI_COMM_WORLD);
    const Outputs actual = run_shared_as<Tag, Logit>(mpi, shard_of(call, partition), partition, request);
    expect_right_outputs(MPI_COMM_WORLD, loss, call, cut, actual);
    if (ranks() > 1) EXPECT_NE(actual.launch.find("in_kernel"), std::string::npos) << actual.launch;
  }

  template <class Tag, class Logit>
  static void expect_all(std::int64_t rows, std::int64_t vocab) {
    for (const Sequence sequence :
         {Sequence::forward_backward, Sequence::forward_backward_twice, Sequence::forward_then_backward}) {
      Call call = ordinary_call(loss_named(Tag::name), rows, vocab);
      call.sequence = sequence;
      for (const Cut& cut : cuts_of(vocab, ranks())) expect_right_values<Tag, Logit>(call, cut, request());
    }
  }
};

TEST_F(InKernel, ReverseKl) {
  expect_all<ReverseKl, bfloat16>(7, 257);
  expect_all<ReverseKl, float>(300, 64);
}
TEST_F(InKernel, ForwardKl) { expect_all<ForwardKl, bfloat16>(7, 257); }
TEST_F(InKernel, SoftCrossEntropy) { expect_all<SoftCrossEntropy, float>(7, 257); }
TEST_F(InKernel, SoftCrossEntropyProbabilities) { expect_all<SoftCrossEntropyProbabilities, float>(7, 257); }
TEST_F(InKernel, CrossEntropy) {
  expect_all<CrossEntropy, bfloat16>(7, 257);
  expect_all<CrossEntropy, float>(300, 64);
}
TEST_F(InKernel, LogProb) { expect_all<LogProb, float>(7, 257); }
TEST_F(InKernel, LogProbEntropy) { expect_all<LogProbEntropy, bfloat16>(7, 257); }
TEST_F(InKernel, Entropy) { expect_all<Entropy, float>(7, 257); }
TEST_F(InKernel, ZLoss) { expect_all<ZLoss, bfloat16>(7, 257); }
TEST_F(InKernel, JsdInTwoRounds) {
  expect_all<Jsd, float>(7, 257);
  expect_all<Jsd, bfloat16>(150, 64);
}

/// Rows of many pieces, over several blocks, at every offset within 16 bytes.
TEST_F(InKernel, LongRows) {
  for (const std::int64_t vocab : {50257, 131072}) {
    const Call call = ordinary_call(loss_named("reverse_kl"), 5, vocab);
    expect_right_values<ReverseKl, bfloat16>(call, even_cut(vocab, ranks()), request());
    const Call labelled = ordinary_call(loss_named("cross_entropy"), 5, vocab);
    expect_right_values<CrossEntropy, bfloat16>(labelled, even_cut(vocab, ranks()), request());
  }
}

TEST_F(InKernel, EveryWidthAndPiecesAhead) {
  const Call call = ordinary_call(loss_named("reverse_kl"), 40, 4000);
  for (const int width : {1, 2, 4, 8}) {
    for (const int ahead : {0, 1, 64}) {
      const std::string variant =
          "width=" + std::to_string(width) + " ahead=" + std::to_string(ahead) + " threads=512 vectors=2 blocks=1";
      expect_right_values<ReverseKl, bfloat16>(call, even_cut(4000, ranks()), request(variant));
    }
  }
}

/// From 1024 rows on, blocks take short rows two at a time.
TEST_F(InKernel, GroupsOfConsumers) {
  if (ranks() == 1) GTEST_SKIP() << "nothing is exchanged";
  constexpr std::int64_t rows = 1100;
  const std::int64_t vocab = 1003 * ranks();
  const Cut cut = even_cut(vocab, ranks());
  for (const Sequence sequence : {Sequence::forward_backward, Sequence::forward_then_backward}) {
    Call call = ordinary_call(loss_named("reverse_kl"), rows, vocab);
    call.sequence = sequence;
    expect_right_values<ReverseKl, bfloat16>(call, cut,
                                             request("width=1 ahead=2 threads=128 vectors=2 blocks=2 groups=2"));
    Call labelled = ordinary_call(loss_named("cross_entropy"), rows, vocab);
    labelled.sequence = sequence;
    expect_right_values<CrossEntropy, float>(labelled, cut, request());
    Call entropies = ordinary_call(loss_named("log_prob_entropy"), rows, vocab);
    entropies.sequence = sequence;
    expect_right_values<LogProbEntropy, bfloat16>(entropies, cut, request());
  }
}

/// A column that decides its row, on one of the ranks.
TEST_F(InKernel, PeakedRows) {
  constexpr std::int64_t rows = 24;
  const std::int64_t vocab = 5000;
  Call call = ordinary_call(loss_named("reverse_kl"), rows, vocab);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t column = i * 1237 % vocab;
    call.x[i * vocab + column] = 8 + double(i) / 2;
    call.t[i * vocab + column] = 9 + double(i) / 4;
  }
  const Cut cut = even_cut(vocab, ranks());
  expect_right_values<ReverseKl, bfloat16>(call, cut, request());
  expect_right_values<SoftCrossEntropy, float>(call, cut, request());
  expect_right_values<Jsd, float>(call, cut, request());
}

/// What one rank makes of NaN, infinities, and shards of nothing, all make.
TEST_F(InKernel, InfinitiesAndNan) {
  const std::int64_t vocab = 24;
  Call call = ordinary_call(loss_named("reverse_kl"), 8, vocab, 15);
  const auto fill = [&](std::vector<double>& stream, int row, std::int64_t first, std::int64_t end, double value) {
    for (std::int64_t j = first; j < end; ++j) stream[row * vocab + j] = value;
  };
  fill(call.x, 0, 3, 4, not_a_number);
  fill(call.x, 1, vocab - 1, vocab, infinity);
  fill(call.x, 2, 0, vocab, -infinity);
  fill(call.x, 3, 0, vocab / 2, -infinity);
  fill(call.t, 3, 0, vocab / 2, -infinity);
  fill(call.t, 6, 1, 2, not_a_number);
  expect_right_values<ReverseKl, float>(call, even_cut(vocab, ranks()), request());
}

TEST_F(InKernel, ZeroRows) {
  Call call = ordinary_call(loss_named("reverse_kl"), 0, 20);
  call.t = {0};
  expect_right_values<ReverseKl, float>(call, even_cut(20, ranks()), request());
}

TEST_F(InKernel, FloatGradientsAreRefused) {
  if (ranks() == 1) GTEST_SKIP() << "nothing is exchanged";
  Call call = ordinary_call(loss_named("reverse_kl"), 3, 40);
  call.store_as(vocabloss::DataType::bf16);
  call.gradient = vocabloss::DataType::fp32;
  const VocabPartition partition = partition_of(even_cut(40, ranks()), rank());
  Mpi mpi = Mpi::duplicate(MPI_COMM_WORLD);
  const auto run = [&] { run_shared_as<ReverseKl, bfloat16>(mpi, shard_of(call, partition), partition, request()); };
  EXPECT_THROW(run(), vocabloss::PathRefused);
}

/// A plan of its own, for tests that look at single launches.
class OnePlan {
 public:
  using Exec = Kokkos::Cuda;
  using Plan = vocabloss::Plan<vocabloss::loss::ReverseKl, float, Exec, Mpi>;
  static constexpr std::int64_t rows = 200, columns = 96;

  OnePlan(const Exec& instance, milliseconds time_limit)
      : exec(instance),
        mpi(Mpi::duplicate(MPI_COMM_WORLD)),
        plan(exec, mpi, batch(losses, dx), {},
             {.path = Path::cluster, .exchange = Exchange::in_kernel, .time_limit = time_limit}) {}

  vocabloss::Batch<float, Exec> batch(const Kokkos::View<float*, Exec>& values,
                                      const Kokkos::View<float**, Kokkos::LayoutRight, Exec>& gradient) const {
    const int rank = rank_in(MPI_COMM_WORLD), ranks = size_of(MPI_COMM_WORLD);
    vocabloss::Batch<float, Exec> made;
    made.logits(x).teacher(t).losses(values).gradient(gradient).partition({columns * ranks, columns * rank, columns});
    return made;
  }
  void fill(int round) const {
    const int rank = rank_in(MPI_COMM_WORLD);
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
  }
  static auto on_host(const Kokkos::View<float*, Exec>& values) {
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, values);
  }

  Exec exec;
  Kokkos::View<float**, Kokkos::LayoutRight, Exec> x{"test", rows, columns}, t{"test", rows, columns},
      dx{"test", rows, columns};
  Kokkos::View<float*, Exec> losses{"test", rows};
  Mpi mpi;
  Plan plan;
};

/// Captured once, replayed with other data, beside eager launches of the same plan: launches are numbered on the
/// device.
TEST_F(InKernel, A64_A65_A66_CapturedInAGraph) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    const OnePlan one(Kokkos::Cuda(stream), milliseconds(20000));
    const auto batch = one.batch(one.losses, one.dx);
    one.plan.forward_backward(one.exec, batch);
    one.plan.wait(one.exec);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t runnable = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    one.plan.forward_backward(one.exec, batch);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&runnable, graph, 0), cudaSuccess);
    const Kokkos::View<float*, Kokkos::Cuda> eager_losses("test", OnePlan::rows);
    const Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::Cuda> eager_dx("test", OnePlan::rows, OnePlan::columns);
    for (int round = 0; round < 3; ++round) {
      one.fill(round);
      for (int again = 0; again < 3; ++again) ASSERT_EQ(cudaGraphLaunch(runnable, stream), cudaSuccess);
      one.plan.forward_backward(one.exec, one.batch(eager_losses, eager_dx));
      one.plan.wait(one.exec);
      const auto a = OnePlan::on_host(one.losses), b = OnePlan::on_host(eager_losses);
      const auto da = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, one.dx);
      const auto db = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, eager_dx);
      for (std::int64_t i = 0; i < OnePlan::rows; ++i) {
        ASSERT_EQ(a(i), b(i)) << "row " << i << " of round " << round;
        for (std::int64_t j = 0; j < OnePlan::columns; ++j) ASSERT_EQ(da(i, j), db(i, j));
      }
    }
    cudaGraphExecDestroy(runnable);
    cudaGraphDestroy(graph);
  }
  cudaStreamDestroy(stream);
}

TEST_F(InKernel, RanksThatStartLateAreWaitedFor) {
  const OnePlan one(Kokkos::Cuda(), milliseconds(20000));
  one.fill(1);
  for (int late = 0; late < ranks(); ++late) {
    if (rank() == late) std::this_thread::sleep_for(milliseconds(300));
    one.plan.forward_backward(one.exec, one.batch(one.losses, one.dx));
  }
  one.plan.wait(one.exec);
  const auto losses = OnePlan::on_host(one.losses);
  for (std::int64_t i = 0; i < OnePlan::rows; ++i) ASSERT_TRUE(std::isfinite(losses(i))) << "row " << i;
}

/// One rank makes no call: the others end within the time limit, with an error, NaN in every row, and a plan that says
/// that it cannot be used. The rank itself learns of it with its next call.
TEST_F(InKernel, A_LostRankIsAnError) {
  if (ranks() == 1) GTEST_SKIP() << "nobody to lose";
  const OnePlan one(Kokkos::Cuda(), milliseconds(500));
  one.fill(2);
  const auto batch = one.batch(one.losses, one.dx);
  one.plan.forward_backward(one.exec, batch);
  one.plan.wait(one.exec);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  if (rank() + 1 < ranks()) {
    one.plan.forward_backward(one.exec, batch);
    EXPECT_THROW(one.plan.wait(one.exec), vocabloss::CommunicationError);
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(5000));
    EXPECT_THROW(one.plan.check(), vocabloss::CommunicationError);
    EXPECT_THROW(one.plan.forward_backward(one.exec, batch), vocabloss::CommunicationError);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() + 1 == ranks()) {
    one.plan.forward_backward(one.exec, batch);
    EXPECT_THROW(one.plan.wait(one.exec), vocabloss::CommunicationError);
  }
  const auto losses = OnePlan::on_host(one.losses);
  const auto dx = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, one.dx);
  for (std::int64_t i = 0; i < OnePlan::rows; ++i) {
    ASSERT_TRUE(std::isnan(losses(i))) << "row " << i;
    for (std::int64_t j = 0; j < OnePlan::columns; ++j) ASSERT_TRUE(std::isnan(dx(i, j))) << "row " << i;
  }
}

}  // namespace
