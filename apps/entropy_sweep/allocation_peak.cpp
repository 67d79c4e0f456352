// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "allocation_peak.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>

namespace entropy_sweep {
namespace {

namespace Tools = Kokkos::Tools::Experimental;

// Callbacks are plain functions, so their state is global. Kokkos allocates from the host thread that calls it.
std::int64_t held = 0;
std::int64_t most = 0;
Tools::EventSet before;

void on_allocate(Kokkos_Profiling_SpaceHandle space, const char* label, const void* data, std::uint64_t bytes) {
  held += static_cast<std::int64_t>(bytes);
  most = std::max(most, held);
  if (before.allocate_data != nullptr) before.allocate_data(space, label, data, bytes);
}

void on_deallocate(Kokkos_Profiling_SpaceHandle space, const char* label, const void* data, std::uint64_t bytes) {
  held -= static_cast<std::int64_t>(bytes);
  if (before.deallocate_data != nullptr) before.deallocate_data(space, label, data, bytes);
}

}  // namespace

AllocationPeak::AllocationPeak() {
  held = most = 0;
  before = Tools::get_callbacks();
  Tools::set_allocate_data_callback(on_allocate);
  Tools::set_deallocate_data_callback(on_deallocate);
}

AllocationPeak::~AllocationPeak() {
  Tools::set_allocate_data_callback(before.allocate_data);
  Tools::set_deallocate_data_callback(before.deallocate_data);
}

std::int64_t AllocationPeak::bytes() const { return most; }

}  // namespace entropy_sweep
