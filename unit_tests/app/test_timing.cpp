// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Calls and streaming kernels take turns; a share needs nine of them.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

#include "timing.hpp"

namespace {

using Exec = Kokkos::DefaultExecutionSpace;
namespace impl = vocabloss::Impl;

TEST(Timing, SpreadOfOddAndEven) {
  EXPECT_EQ(impl::spread_of({3}).median, 3);
  EXPECT_EQ(impl::spread_of({9, 1, 5}).median, 5);
  EXPECT_EQ(impl::spread_of({4, 1, 3, 2}).median, 2.5);
  EXPECT_EQ(impl::spread_of({4, 1, 3, 2}).min, 1);
  EXPECT_EQ(impl::spread_of({4, 1, 3, 2}).max, 4);
}

TEST(Timing, TakesTurnsAndPreparesEach) {
  Kokkos::View<float**, Kokkos::LayoutRight, Exec> read("read", 4, 256), written("written", 4, 256);
  impl::StreamProblem problem;
  problem.rows = 4;
  problem.columns = 256;
  problem.add_read({read.data(), vocabloss::DataType::fp32, 256});
  problem.write = {written.data(), vocabloss::DataType::fp32, 256};
  int calls = 0;
  int prepared = 0;
  const auto call = [&] { ++calls; };
  const auto prepare = [&] { ++prepared; };

  int argc = 0;
  char** argv = nullptr;
  const entropy_sweep::Ranks alone(entropy_sweep::Comm::self, argc, argv);
  const entropy_sweep::Timings few = entropy_sweep::time_in_turns(alone, Exec(), call, prepare, problem, 3);
  EXPECT_EQ(calls, 9);  // three counted, nine for the share
  EXPECT_EQ(prepared, 9);
  EXPECT_TRUE(few.share_of_stream.has_value());
  EXPECT_LE(few.ours.min, few.ours.median);
  EXPECT_LE(few.ours.median, few.ours.max);

  calls = 0;
  entropy_sweep::time_in_turns(alone, Exec(), call, prepare, problem, 20);
  EXPECT_EQ(calls, 20);

  calls = prepared = 0;
  entropy_sweep::time_in_turns(alone, Exec(), call, prepare, problem, 10, 4);
  EXPECT_EQ(calls, 40);  // four in a row after one preparation
  EXPECT_EQ(prepared, 10);
}

}  // namespace
