// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Manners of the library towards its host program, seen through Kokkos Tools: everything it launches, allocates or
// marks is labelled "VocabLoss"; calls of a plan allocate nothing and wait for nothing on path team.

#include <gtest/gtest.h>

#include <vocabloss/vocabloss.hpp>

#include <Kokkos_Core.hpp>

#include <string>
#include <vector>

namespace {

using namespace vocabloss;
using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;

/// What Kokkos reported since `start`, in words.
struct Events {
  std::vector<std::string> launches, allocations, fences, regions;
};
Events events;

void record_launch(const char* name, std::uint32_t, std::uint64_t*) { events.launches.push_back(name); }
void record_allocation(Kokkos_Profiling_SpaceHandle, const char* name, const void*, std::uint64_t) {
  events.allocations.push_back(name);
}
void record_fence(const char* name, std::uint32_t, std::uint64_t*) {
  const std::string text = name;
  if (text.find("Kokkos Profile Tool Fence") != std::string::npos) return;  // of this very observation
  events.fences.push_back(text);
}
void record_region(const char* name) { events.regions.push_back(name); }

class Recording {
 public:
  Recording() {
    using namespace Kokkos::Tools::Experimental;
    events = {};
    set_begin_parallel_for_callback(record_launch);
    set_begin_parallel_reduce_callback(record_launch);
    set_begin_parallel_scan_callback(record_launch);
    set_allocate_data_callback(record_allocation);
    set_begin_fence_callback(record_fence);
    set_push_region_callback(record_region);
  }
  ~Recording() {
    using namespace Kokkos::Tools::Experimental;
    set_begin_parallel_for_callback(nullptr);
    set_begin_parallel_reduce_callback(nullptr);
    set_begin_parallel_scan_callback(nullptr);
    set_allocate_data_callback(nullptr);
    set_begin_fence_callback(nullptr);
    set_push_region_callback(nullptr);
  }
};

/// `others`: what may call itself otherwise, because another library launches it.
void expect_ours(const std::vector<std::string>& names, const char* what, const std::string& others = "") {
  for (const std::string& name : names) {
    if (!others.empty() && name.rfind(others, 0) == 0) continue;
    EXPECT_EQ(name.rfind("VocabLoss", 0), 0u) << what << " '" << name << "' does not start with VocabLoss";
  }
}

template <template <class> class Loss>
struct Fixture {
  Kokkos::View<float**, Kokkos::LayoutRight, Memory> x{"x", 6, 100}, t{"t", 6, 100}, dx{"dx", 6, 100};
  Kokkos::View<float*, Memory> losses{"losses", 6};
  Kokkos::View<std::int64_t*, Memory> labels{"labels", 6};
  Kokkos::View<Summary<float>, Memory> summary{"summary"};
  Exec exec;
  Batch<float> batch;
  Fixture() {
    batch.logits(x).teacher(t).labels(labels).losses(losses).gradient(dx).summary(summary);
    exec.fence();
  }
  Plan<Loss, float> plan(Path path) { return Plan<Loss, float>(exec, batch, {}, {.path = path}); }
};

template <template <class> class Loss>
void expect_labels(Path path) {
  Fixture<Loss> fixture;
  const auto all_calls = [&] {
    const auto plan = fixture.plan(path);
    plan.forward_backward(fixture.exec, fixture.batch);
    plan.forward(fixture.exec, fixture.batch);
    plan.backward(fixture.exec, fixture.batch);
  };
  all_calls();  // Kokkos gets its own scratch memory at the first launch of teams
  const Recording recording;
  all_calls();
  const std::string others = path == Path::naive ? "Kokkos" : "";  // it is made of Kokkos Kernels
  expect_ours(events.allocations, "allocation");
  expect_ours(events.launches, "kernel", others);
  expect_ours(events.regions, "region", others);
  EXPECT_FALSE(events.allocations.empty());
}

TEST(Hygiene, LabelsStartWithTheLibrarysName) {
  for (const Path path : {Path::team, Path::reference, Path::naive}) {
    SCOPED_TRACE(std::string(name_of(path)));
    expect_labels<loss::ReverseKl>(path);
    expect_labels<loss::CrossEntropy>(path);
  }
}

template <template <class> class Loss>
void expect_no_allocation(Path path, bool may_fence) {
  Fixture<Loss> fixture;
  const auto plan = fixture.plan(path);
  plan.forward_backward(fixture.exec, fixture.batch);  // Kokkos gets its own scratch memory at the first launch
  const Recording recording;
  plan.forward_backward(fixture.exec, fixture.batch);
  plan.forward(fixture.exec, fixture.batch);
  plan.backward(fixture.exec, fixture.batch);
  EXPECT_TRUE(events.allocations.empty()) << ::testing::PrintToString(events.allocations);
  if (!may_fence) {
    EXPECT_TRUE(events.fences.empty()) << ::testing::PrintToString(events.fences);
  }
}

TEST(Hygiene, CallsAllocateNothing) {
  expect_no_allocation<loss::ReverseKl>(Path::team, false);
  expect_no_allocation<loss::CrossEntropy>(Path::team, false);
  expect_no_allocation<loss::CrossEntropy>(Path::reference, true);  // runs on the host: it has to wait
}

TEST(Hygiene, OneLaunchForAllRows) {
  Fixture<loss::ReverseKl> fixture;
  const auto plan = fixture.plan(Path::team);
  const Recording recording;
  plan.forward_backward(fixture.exec, fixture.batch);
  EXPECT_EQ(events.launches, (std::vector<std::string>{"VocabLoss::team::forward_backward", "VocabLoss::summary"}));
}

}  // namespace
