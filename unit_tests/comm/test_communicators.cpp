// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The communicators themselves: what they move, who owns the handle, and how errors come back.

#include <gtest/gtest.h>
#include <vocabloss/comm/concept.hpp>
#include <vocabloss/comm/mpi.hpp>
#include <vocabloss/comm/self.hpp>
#include <vocabloss/error.hpp>
#include <vocabloss/plan.hpp>

#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/support/shared.hpp"

namespace test {

/// A communicator of a user's own: MPI that fails at the third exchange of states.
class FailsLater {
 public:
  static constexpr bool is_asynchronous = false;
  explicit FailsLater(MPI_Comm comm) : mpi_(Mpi::duplicate(comm)) {}
  int rank() const { return mpi_.rank(); }
  int size() const { return mpi_.size(); }
  template <class Space, class Real>
  void all_gather(const Space& space, const Real* in, Real* out, std::size_t count) {
    if (std::is_same_v<Real, float> && ++exchanges_ == 3) throw vocabloss::CommunicationError("a cable was pulled");
    mpi_.all_gather(space, in, out, count);
  }
  template <class Space, class Real>
  void all_reduce_max(const Space& space, const Real* in, Real* out, std::size_t count) {
    mpi_.all_reduce_max(space, in, out, count);
  }
  template <class Space, class Real>
  void all_reduce_sum(const Space& space, const Real* in, Real* out, std::size_t count) {
    mpi_.all_reduce_sum(space, in, out, count);
  }
  std::string poll_error() const { return mpi_.poll_error(); }
  void check() const { mpi_.check(); }
  template <class Space>
  void wait(const Space& space) const {
    mpi_.wait(space);
  }
  template <class Space>
  std::string describe(const Space&) const {
    return "fails later";
  }

 private:
  Mpi mpi_;
  int exchanges_ = 0;
};

}  // namespace test

namespace {

using namespace test;
using Exec = Kokkos::DefaultExecutionSpace;
using vocabloss::comm::Self;

static_assert(vocabloss::comm::VocabCommunicator<Self, Exec>);
static_assert(vocabloss::comm::VocabCommunicator<Mpi, Exec>);
static_assert(vocabloss::comm::VocabCommunicator<Mpi, Kokkos::DefaultHostExecutionSpace>);
static_assert(!std::is_copy_constructible_v<Mpi> && std::is_nothrow_move_constructible_v<Self>);

template <class Real, class Comm>
void expect_exchanges_work(Comm& comm) {
  const Exec exec;
  const int ranks = comm.size();
  Kokkos::View<Real*, Exec> in("test", 3), all("test", 3 * ranks), most("test", 3), sum("test", 3);
  auto host_in = Kokkos::create_mirror_view(in);
  for (int i = 0; i < 3; ++i) host_in(i) = Real(10 * comm.rank() + i);
  Kokkos::deep_copy(in, host_in);
  comm.all_gather(exec, static_cast<const Real*>(in.data()), all.data(), 3);
  comm.all_reduce_max(exec, static_cast<const Real*>(in.data()), most.data(), 3);
  comm.all_reduce_sum(exec, static_cast<const Real*>(in.data()), sum.data(), 3);
  comm.wait(exec);
  const auto host_all = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, all);
  const auto host_most = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, most);
  const auto host_sum = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, sum);
  for (int i = 0; i < 3; ++i) {
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(host_all(3 * rank + i), Real(10 * rank + i));
    EXPECT_EQ(host_most(i), Real(10 * (ranks - 1) + i));
    EXPECT_EQ(host_sum(i), Real(10 * ranks * (ranks - 1) / 2 + i * ranks));
  }
  EXPECT_EQ(comm.poll_error(), "");
  EXPECT_NO_THROW(comm.check());
}

TEST(Communicators, SelfCopies) {
  Self self;
  EXPECT_EQ(self.size(), 1);
  expect_exchanges_work<float>(self);
  expect_exchanges_work<double>(self);
}

TEST(Communicators, MpiExchanges) {
  Mpi mpi = Mpi::duplicate(MPI_COMM_WORLD);
  EXPECT_EQ(mpi.rank(), rank_in(MPI_COMM_WORLD));
  EXPECT_EQ(mpi.size(), size_of(MPI_COMM_WORLD));
  EXPECT_NE(mpi.describe(Exec()).find("mpi, " + std::to_string(mpi.size()) + " ranks, "), std::string::npos);
  expect_exchanges_work<float>(mpi);
  expect_exchanges_work<double>(mpi);
}

TEST(Communicators, MpiMovesItsHandle) {
  Mpi first = Mpi::duplicate(MPI_COMM_WORLD);
  Mpi second = std::move(first);
  expect_exchanges_work<float>(second);
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  second = Mpi::adopt(copy);  // the duplicate it held goes with `first` or here, once
  expect_exchanges_work<float>(second);
}

TEST(Communicators, MpiRefusesWhatItCannotDo) {
  EXPECT_THROW(Mpi::adopt(MPI_COMM_NULL), vocabloss::InvalidArgument);
  Mpi mpi = Mpi::duplicate(MPI_COMM_WORLD);
  const float in = 0;
  float out = 0;
  // More values than an int counts: refused by every rank before anything is sent.
  EXPECT_THROW(mpi.all_reduce_sum(Kokkos::DefaultHostExecutionSpace(), &in, &out, std::size_t(1) << 31),
               vocabloss::InvalidArgument);
  expect_exchanges_work<float>(mpi);
}

/// Ranks that do not agree on the count: MPI says so to the one whose message is cut, and the communicator is done for.
TEST(Communicators, MpiErrorsAreThrownAndRemembered) {
  if (size_of(MPI_COMM_WORLD) != 2) GTEST_SKIP() << "two ranks";
  Mpi mpi = Mpi::duplicate(MPI_COMM_WORLD);
  const Kokkos::DefaultHostExecutionSpace exec;
  const std::vector<float> in(100, 1);
  std::vector<float> out(200);
  if (mpi.rank() == 1) return mpi.all_gather(exec, in.data(), out.data(), 100);
  EXPECT_THROW(mpi.all_gather(exec, in.data(), out.data(), 1), vocabloss::CommunicationError);
  EXPECT_NE(mpi.poll_error().find("MPI_Allgather failed on rank 0 of 2: "), std::string::npos) << mpi.poll_error();
  EXPECT_THROW(mpi.check(), vocabloss::CommunicationError);
  EXPECT_THROW(mpi.wait(exec), vocabloss::CommunicationError);
  EXPECT_THROW(mpi.all_reduce_sum(exec, in.data(), out.data(), 1), vocabloss::CommunicationError);
}

TEST(Communicators, RowsThatAnErrorLeavesUnfinishedAreNan) {
  if (size_of(MPI_COMM_WORLD) == 1) GTEST_SKIP() << "needs ranks";
  FailsLater comm(MPI_COMM_WORLD);
  const Exec exec;
  const int rows = 7;
  const Kokkos::View<float**, Kokkos::LayoutRight, Exec> x("test", rows, 5), dx("test", rows, 5);
  const Kokkos::View<float*, Exec> losses("test", rows);
  const Kokkos::View<bool*, Exec> mask("test", rows);
  Kokkos::deep_copy(mask, true);
  Kokkos::deep_copy(Kokkos::subview(mask, rows - 1), false);
  Kokkos::deep_copy(losses, 17);
  Kokkos::deep_copy(dx, 17);
  vocabloss::Batch<float> batch;
  batch.logits(x).losses(losses).gradient(dx).mask(mask).partition({5 * comm.size(), 5 * comm.rank(), 5});
  const vocabloss::Plan<vocabloss::loss::ZLoss, float, Exec, FailsLater> plan(exec, comm, batch, {}, {.block_rows = 2});
  EXPECT_THROW(plan.forward_backward(exec, batch), vocabloss::CommunicationError);
  exec.fence();
  const auto host_losses = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, losses);
  const auto host_dx = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, dx);
  for (int i = 0; i < rows; ++i) {
    const bool masked = i == rows - 1;
    const bool finished = i < 4;  // two blocks of two rows
    EXPECT_EQ(std::isnan(host_losses(i)), !finished && !masked) << "row " << i;
    if (masked) {
      EXPECT_EQ(host_losses(i), 0);
    }
    for (int j = 0; j < 5; ++j) EXPECT_EQ(std::isnan(host_dx(i, j)), !finished && !masked) << "row " << i;
    EXPECT_NE(host_losses(i), 17) << "a stale value";
  }
}

TEST(Communicators, PlanTellsOverWhat) {
  Mpi mpi = Mpi::duplicate(MPI_COMM_WORLD);
  const Exec exec;
  const Kokkos::View<float**, Kokkos::LayoutRight, Exec> x("test", 4, 2);
  vocabloss::Batch<float> batch;
  batch.logits(x).partition({2 * mpi.size(), 2 * mpi.rank(), 2});
  const vocabloss::Plan<vocabloss::loss::ZLoss, float, Exec, Mpi> plan(exec, mpi, batch);
  const std::string text = plan.launch().describe();
  const bool tells = text.find("exchange=allgather block_rows=4 over mpi, ") != std::string::npos;
  EXPECT_EQ(tells, mpi.size() > 1) << text;
  EXPECT_EQ(plan.launch().ranks, mpi.size());
}

}  // namespace
