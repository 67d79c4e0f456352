// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Exchanges between the kernels of path cluster: the right values, the same bits on all ranks, whatever a row holds.

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "comm/support/run_shared.hpp"
#include "comm/support/shared.hpp"
#include "support/check.hpp"

namespace {

using namespace test;
using vocabloss::bfloat16;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

class ClusterStages : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "a GPU is needed";
    if (ranks() == 1) GTEST_SKIP() << "nothing is exchanged";
  }

  static int rank() { return rank_in(MPI_COMM_WORLD); }
  static int ranks() { return size_of(MPI_COMM_WORLD); }

  template <class Tag, class Logit>
  static Outputs run(const Call& call, const Cut& cut, const SharedRequest& request) {
    const VocabPartition partition = partition_of(cut, rank());
    Mpi mpi = Mpi::duplicate(MPI_COMM_WORLD);
    return run_shared_as<Tag, Logit>(mpi, shard_of(call, partition), partition, request);
  }

  /// Over both exchanges, in one block of rows and in several, with the path asked for and chosen.
  template <class Tag, class Logit>
  static void expect_right_values(Call call, const Cut& cut) {
    call.store_as(vocabloss::Precision<Logit>::type);
    const LossEntry& loss = loss_named(Tag::name);
    for (const SharedRequest& request :
         {SharedRequest{.path = Path::cluster, .exchange = Exchange::allgather},
          SharedRequest{.path = Path::cluster, .exchange = Exchange::two_allreduce},
          SharedRequest{.path = Path::automatic, .exchange = Exchange::allgather, .block_rows = 3}}) {
      SCOPED_TRACE(describe(loss, call) + ", cut " + describe(cut) + ", " + std::string(name_of(request.exchange)));
      const Outputs actual = run<Tag, Logit>(call, cut, request);
      expect_right_outputs(MPI_COMM_WORLD, loss, call, cut, actual);
      EXPECT_EQ(actual.launch.rfind("cluster width=", 0), 0u) << actual.launch;
    }
  }

  template <class Tag, class Logit>
  static void expect_all(std::int64_t rows, std::int64_t vocab) {
    for (const Sequence sequence : {Sequence::forward, Sequence::forward_backward, Sequence::forward_backward_twice,
                                    Sequence::forward_then_backward}) {
      Call call = ordinary_call(loss_named(Tag::name), rows, vocab);
      call.sequence = sequence;
      for (const Cut& cut : cuts_of(vocab, ranks())) expect_right_values<Tag, Logit>(call, cut);
    }
  }
};

TEST_F(ClusterStages, ReverseKl) {
  expect_all<ReverseKl, bfloat16>(7, 257);
  expect_all<ReverseKl, float>(300, 64);
}
TEST_F(ClusterStages, ForwardKl) { expect_all<ForwardKl, bfloat16>(7, 257); }
TEST_F(ClusterStages, SoftCrossEntropy) { expect_all<SoftCrossEntropy, float>(7, 257); }
TEST_F(ClusterStages, SoftCrossEntropyProbabilities) { expect_all<SoftCrossEntropyProbabilities, float>(7, 257); }
TEST_F(ClusterStages, CrossEntropy) {
  expect_all<CrossEntropy, bfloat16>(7, 257);
  expect_all<CrossEntropy, float>(300, 64);
}
TEST_F(ClusterStages, LogProbEntropy) { expect_all<LogProbEntropy, bfloat16>(7, 257); }
TEST_F(ClusterStages, ZLoss) { expect_all<ZLoss, bfloat16>(7, 257); }

/// Rows of many pieces, over several blocks of a cluster.
TEST_F(ClusterStages, LongRows) {
  for (const std::int64_t vocab : {50257, 262144}) {
    expect_right_values<ReverseKl, bfloat16>(ordinary_call(loss_named("reverse_kl"), 5, vocab),
                                             even_cut(vocab, ranks()));
    expect_right_values<CrossEntropy, bfloat16>(ordinary_call(loss_named("cross_entropy"), 5, vocab),
                                                even_cut(vocab, ranks()));
  }
}

/// Masked and ignored rows, labels outside the vocabulary, weights, upstream gradients, strides; also accumulated.
TEST_F(ClusterStages, AllThatACallCarries) {
  const std::int64_t rows = 7, vocab = 133;
  Call call = ordinary_call(loss_named("cross_entropy"), rows, vocab, 11);
  call.mask = {1, 0, 1, 1, 0, 1, 1};
  call.labels[2] = -100;
  call.labels[3] = vocab;
  call.labels[4] = -7;
  call.row_weights = {1, 2, 0.5, 0, 3, 1, 2};
  call.upstream[0] = {0.5, 1, -2, 1, 1, 3, -1};
  call.divisor = 4;
  call.padding = 3;
  call.vector_stride = 2;
  expect_right_values<CrossEntropy, bfloat16>(call, even_cut(vocab, ranks()));
  call.gradient_before.assign(rows * vocab, 0.25);
  expect_right_values<CrossEntropy, bfloat16>(call, even_cut(vocab, ranks()));
}

TEST_F(ClusterStages, InPlace) {
  for (const Sequence sequence : {Sequence::forward_backward, Sequence::forward_then_backward}) {
    Call call = ordinary_call(loss_named("reverse_kl"), 40, 1000, 3);
    call.sequence = sequence;
    call.in_place = true;
    call.mask.assign(40, 1);
    call.mask[5] = 0;
    expect_right_values<ReverseKl, bfloat16>(call, even_cut(1000, ranks()));
  }
}

/// What one rank makes of NaN, infinities, and shards of nothing, all make; masked rows may hold anything.
TEST_F(ClusterStages, InfinitiesAndNan) {
  const std::int64_t vocab = 24;
  Call call = ordinary_call(loss_named("reverse_kl"), 9, vocab, 15);
  const auto fill = [&](std::vector<double>& stream, int row, std::int64_t first, std::int64_t end, double value) {
    for (std::int64_t j = first; j < end; ++j) stream[row * vocab + j] = value;
  };
  fill(call.x, 0, 3, 4, not_a_number);
  fill(call.x, 1, vocab - 1, vocab, infinity);
  fill(call.x, 2, 0, vocab, -infinity);
  fill(call.x, 3, 0, vocab / 2, -infinity);
  fill(call.t, 3, 0, vocab / 2, -infinity);
  fill(call.t, 6, 1, 2, not_a_number);
  fill(call.x, 8, 0, vocab, not_a_number);
  call.mask.assign(9, 1);
  call.mask[8] = 0;
  expect_right_values<ReverseKl, float>(call, even_cut(vocab, ranks()));
}

TEST_F(ClusterStages, ZeroRows) {
  Call call = ordinary_call(loss_named("reverse_kl"), 0, 20);
  call.t = {0};
  expect_right_values<ReverseKl, float>(call, even_cut(20, ranks()));
}

TEST_F(ClusterStages, AShapeMayBeAskedFor) {
  const std::string variant = "width=4 " + vocabloss::ClusterShape{}.describe().substr(8);
  const Call call = ordinary_call(loss_named("reverse_kl"), 40, 4000);
  const Outputs actual =
      run<ReverseKl, float>(call, even_cut(4000, ranks()), {.path = Path::cluster, .variant = variant});
  EXPECT_EQ(actual.launch.rfind("cluster " + variant, 0), 0u) << actual.launch;
}

/// What the cluster's kernels do not run, path team does, and says why; asked for, it is refused.
TEST_F(ClusterStages, OtherwiseTeam) {
  Call call = ordinary_call(loss_named("reverse_kl"), 3, 40);
  call.store_as(vocabloss::DataType::bf16);
  call.gradient = vocabloss::DataType::fp32;
  const Cut cut = even_cut(40, ranks());
  const Outputs actual = run<ReverseKl, bfloat16>(call, cut, {});
  EXPECT_EQ(actual.launch.rfind("team ", 0), 0u) << actual.launch;
  const SharedRequest asked{.path = Path::cluster};
  EXPECT_THROW((run<ReverseKl, bfloat16>(call, cut, asked)), vocabloss::PathRefused);
}

/// One rank's gradient is of another type: it cannot, so none does.
TEST_F(ClusterStages, AllRanksTakeOnePath) {
  Call call = ordinary_call(loss_named("reverse_kl"), 3, 40);
  call.store_as(vocabloss::DataType::bf16);
  if (rank() == ranks() - 1) call.gradient = vocabloss::DataType::fp32;
  const Cut cut = even_cut(40, ranks());
  EXPECT_EQ((run<ReverseKl, bfloat16>(call, cut, {})).launch.rfind("team ", 0), 0u);
  const SharedRequest asked{.path = Path::cluster};
  EXPECT_THROW((run<ReverseKl, bfloat16>(call, cut, asked)), vocabloss::PathRefused);
}

}  // namespace
