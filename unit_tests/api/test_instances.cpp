// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Kernels run on the execution space instance that the caller hands over, and on no other.

#include <gtest/gtest.h>

#include <vocabloss/vocabloss.hpp>

#include <Kokkos_Core.hpp>

#include <vector>

namespace {

using namespace vocabloss;
using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;

std::vector<std::uint32_t> devices;
void record(const char*, std::uint32_t device, std::uint64_t*) { devices.push_back(device); }

TEST(Instances, KernelsRunOnTheCallersInstance) {
  const auto instances = Kokkos::Experimental::partition_space(Exec(), 1, 1);
  const Kokkos::View<bfloat16**, Kokkos::LayoutRight, Memory> x("x", 5, 50), t("t", 5, 50), dx("dx", 5, 50);
  const Kokkos::View<float*, Memory> losses("losses", 5);
  const Kokkos::View<Summary<float>, Memory> summary("summary");
  Batch<bfloat16> batch;
  batch.logits(x).teacher(t).losses(losses).gradient(dx).summary(summary);
  for (const Path path : {Path::team, Path::naive}) {
    for (const Exec& instance : instances) {
      const Plan<loss::Jsd, bfloat16> plan(instance, batch, {}, {.path = path});
      devices.clear();
      Kokkos::Tools::Experimental::set_begin_parallel_for_callback(record);
      Kokkos::Tools::Experimental::set_begin_parallel_reduce_callback(record);
      plan.forward_backward(instance, batch);
      plan.forward(instance, batch);
      plan.backward(instance, batch);
      Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr);
      Kokkos::Tools::Experimental::set_begin_parallel_reduce_callback(nullptr);
      instance.fence();
      EXPECT_FALSE(devices.empty());
      for (const std::uint32_t device : devices) EXPECT_EQ(device, Kokkos::Tools::Experimental::device_id(instance));
    }
  }
}

}  // namespace
