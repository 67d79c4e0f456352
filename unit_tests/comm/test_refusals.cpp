// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// What one rank cannot do, all refuse: nobody is left waiting, and the communicator is as good as before.

#include <gtest/gtest.h>
#include <vocabloss/vocabloss.hpp>

#include <functional>
#include <string>

#include "comm/support/shared.hpp"

namespace {

using namespace test;
using Exec = Kokkos::DefaultExecutionSpace;

class Refusals : public ::testing::Test {
 protected:
  void SetUp() override {
    if (size_of(MPI_COMM_WORLD) == 1) GTEST_SKIP() << "needs ranks";
  }
  int rank() const { return mpi_.rank(); }
  bool is_last() const { return mpi_.rank() == mpi_.size() - 1; }

  template <class Error>
  void expect_refused(const Call& whole, const Cut& cut, const SharedRequest& request, const std::string& own,
                      const std::string& others) {
    const VocabPartition partition = partition_of(cut, rank());
    expect_thrown<Error>([&] { shared_named("reverse_kl").run(mpi_, shard_of(whole, partition), partition, request); },
                         own, others);
  }
  template <class Error>
  void expect_thrown(const std::function<void()>& call, const std::string& own, const std::string& others) {
    try {
      call();
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      const std::string& wanted = is_last() ? own : others;
      EXPECT_NE(std::string(error.what()).find(wanted), std::string::npos) << error.what();
    }
    // The ranks are still in step.
    const LossEntry& loss = loss_named("reverse_kl");
    expect_right_values(MPI_COMM_WORLD, loss, ordinary_call(loss, 3, 21), even_cut(21, mpi_.size()), {});
  }

  Mpi mpi_ = Mpi::duplicate(MPI_COMM_WORLD);
  Call call_ = ordinary_call(loss_named("reverse_kl"), 3, 20);
  Cut cut_ = even_cut(20, mpi_.size());
  std::string last_ = "rank " + std::to_string(mpi_.size() - 1);
};

TEST_F(Refusals, OptionsOfOneRankOutOfRange) {
  if (is_last()) call_.options.temperature = 0;
  expect_refused<vocabloss::InvalidArgument>(call_, cut_, {}, "temperature must be finite and positive", last_);
}

TEST_F(Refusals, OptionsThatDiffer) {
  if (is_last()) call_.options.temperature = 2;
  expect_refused<vocabloss::InvalidArgument>(
      call_, cut_, {}, "temperature must be the same on all ranks",
      "temperature must be the same on all ranks: it is 1 on rank 0 and 2 on " + last_);
}

TEST_F(Refusals, TeacherMissingOnOneRank) {
  Call call = call_;
  const VocabPartition partition = partition_of(cut_, rank());
  Call shard = shard_of(call, partition);
  if (is_last()) shard.t.clear();
  expect_thrown<vocabloss::InvalidArgument>([&] { shared_named("reverse_kl").run(mpi_, shard, partition, {}); },
                                            "call Batch::teacher", last_);
}

TEST_F(Refusals, RowsThatDiffer) {
  Call call = ordinary_call(loss_named("reverse_kl"), is_last() ? 4 : 3, 20);
  expect_refused<vocabloss::InvalidArgument>(call, cut_, {}, "number of rows must be the same", "3 on rank 0 and 4 on");
}

TEST_F(Refusals, ExchangesThatDiffer) {
  const SharedRequest request{.exchange = is_last() ? Exchange::two_allreduce : Exchange::allgather};
  expect_refused<vocabloss::InvalidArgument>(call_, cut_, request, "PlanRequest::exchange must be the same",
                                             "PlanRequest::exchange must be the same");
}

TEST_F(Refusals, LossesThatDiffer) {
  const VocabPartition partition = partition_of(cut_, rank());
  Call call = call_;
  call.labels.assign(3, 1);
  expect_thrown<vocabloss::InvalidArgument>(
      [&] { shared_named(is_last() ? "jsd" : "reverse_kl").run(mpi_, shard_of(call, partition), partition, {}); },
      "the loss must be the same", "the loss must be the same");
}

TEST_F(Refusals, ShardsThatDoNotTile) {
  VocabPartition partition = partition_of(cut_, rank());
  Call shard = shard_of(call_, partition);
  if (is_last()) partition.first -= 1;
  expect_thrown<vocabloss::InvalidArgument>([&] { shared_named("reverse_kl").run(mpi_, shard, partition, {}); },
                                            "must follow each other", "must follow each other");
  partition = partition_of(cut_, rank());
  partition.vocab += 1;
  expect_thrown<vocabloss::InvalidArgument>([&] { shared_named("reverse_kl").run(mpi_, shard, partition, {}); },
                                            "hold 20 columns together, but the vocabulary has 21", "hold 20 columns");
}

TEST_F(Refusals, PathsAndExchangesThatNeedMore) {
  expect_refused<vocabloss::PathRefused>(call_, cut_, {.path = Path::reference}, "whole vocabulary on one rank",
                                         "whole vocabulary on one rank");
  expect_refused<vocabloss::PathRefused>(call_, cut_, {.exchange = Exchange::in_kernel}, "in_kernel", "in_kernel");
}

/// What is missing depends on the machine; losses of two rounds and fp64 have no such kernels on any.
TEST_F(Refusals, ClusterWhereItsKernelsAreNot) {
  Call call = call_;
  call.store_as(DataType::fp64);
  expect_refused<vocabloss::PathRefused>(call, cut_, {.path = Path::cluster}, "path cluster", "path cluster");
  const VocabPartition partition = partition_of(cut_, rank());
  expect_thrown<vocabloss::PathRefused>(
      [&] { shared_named("jsd").run(mpi_, shard_of(call_, partition), partition, {.path = Path::cluster}); },
      "this loss exchanges twice: use path team", "this loss exchanges twice: use path team");
  if (std::string(Exec::name()) == "Cuda") return;
  for (const Exchange exchange : {Exchange::allgather, Exchange::two_allreduce}) {
    const SharedRequest request{.path = Path::cluster, .exchange = exchange};
    const std::string reason = "built with VocabLoss_ENABLE_CUDA). Between ranks, path team runs it";
    expect_refused<vocabloss::PathRefused>(call_, cut_, request, reason, reason);
  }
}

/// Where the choice is the plan's it takes path team, and says why.
TEST_F(Refusals, AutomaticSaysWhyItTakesTeam) {
  const Exec exec;
  const Kokkos::View<double**, Kokkos::LayoutRight, Exec> x("test", 3, 4), dx("test", 3, 4);
  vocabloss::Batch<double> batch;
  batch.logits(x).gradient(dx).partition({4 * mpi_.size(), 4 * rank(), 4});
  const vocabloss::Plan<vocabloss::loss::Entropy, double, Exec, Mpi> plan(exec, mpi_, batch);
  EXPECT_EQ(plan.launch().path, Path::team);
  EXPECT_EQ(plan.launch().reason.rfind("path cluster ", 0), 0u) << plan.launch().reason;
  const vocabloss::Plan<vocabloss::loss::Entropy, double, Exec, Mpi> asked(exec, mpi_, batch, {}, {.path = Path::team});
  EXPECT_EQ(asked.launch().reason, "");
}

TEST_F(Refusals, GatherWithoutMemory) {
  const SharedRequest little{.path = Path::gather, .memory_limit = 100};
  expect_refused<vocabloss::OutOfMemory>(call_, cut_, little, "path gather needs", "path gather needs");
  const SharedRequest little_on_last{.path = Path::gather, .memory_limit = is_last() ? 100ul : 0ul};
  expect_refused<vocabloss::OutOfMemory>(call_, cut_, little_on_last, "and 100 are allowed", last_);
}

/// A call of a good plan that one rank spoils.
TEST_F(Refusals, CallsThatDiffer) {
  const Exec exec;
  const std::int64_t columns = 4;
  const Kokkos::View<float**, Kokkos::LayoutRight, Exec> x("test", 3, columns), dx("test", 3, columns);
  const Kokkos::View<int*, Exec> labels("test", 3);
  const Kokkos::View<float*, Exec> losses("test", 3);
  vocabloss::Batch<float> batch;
  batch.logits(x).labels(labels).losses(losses).gradient(dx);
  batch.partition({columns * mpi_.size(), columns * rank(), columns});
  const vocabloss::Plan<vocabloss::loss::CrossEntropy, float, Exec, Mpi> plan(exec, mpi_, batch);
  vocabloss::Batch<float> spoiled;
  spoiled.logits(x).losses(losses).gradient(dx).partition({columns * mpi_.size(), columns * rank(), columns});
  expect_thrown<vocabloss::InvalidArgument>([&] { plan.forward(exec, is_last() ? spoiled : batch); },
                                            "call Batch::labels", last_);
  const auto rows = Kokkos::pair<int, int>(0, is_last() ? 2 : 3);
  vocabloss::Batch<float> shorter = batch;
  shorter.logits(Kokkos::subview(x, rows, Kokkos::ALL)).labels(Kokkos::subview(labels, rows));
  shorter.losses(Kokkos::subview(losses, rows)).gradient(Kokkos::subview(dx, rows, Kokkos::ALL));
  expect_thrown<vocabloss::InvalidArgument>([&] { plan.forward_backward(exec, shorter); }, "number of rows must be",
                                            "number of rows must be");
  plan.forward_backward(exec, batch);
  plan.wait(exec);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, losses);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(host(i), std::log(double(columns) * mpi_.size()), 1e-6);
}

}  // namespace
