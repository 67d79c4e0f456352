// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_ALLOCATE_HPP
#define VOCABLOSS_IMPL_ALLOCATE_HPP

/// \file
/// \brief Workspace, and how much of it there is: too little memory is an error of its own kind, with the bytes in it.

#include <vocabloss/error.hpp>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <limits>
#include <string>

namespace vocabloss::Impl {

template <class Exec>
using Bytes = Kokkos::View<char*, typename Exec::memory_space>;

/// \throws OutOfMemory  where the allocation fails
template <class Exec>
Bytes<Exec> allocate_bytes(const Exec& exec, const std::string& label, std::size_t bytes) {
  try {
    return Bytes<Exec>(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, label), bytes);
  } catch (const std::exception& error) {
    throw OutOfMemory("vocabloss: " + label + " of " + std::to_string(bytes) +
                      " bytes could not be allocated: " + error.what());
  }
}

/// Bytes that an allocation may hope for; the largest number where nobody can say.
template <class Exec>
std::size_t bytes_left() {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<Exec, Kokkos::Cuda>) {
    std::size_t left = 0;
    std::size_t total = 0;
    if (cudaMemGetInfo(&left, &total) == cudaSuccess) return left;
  }
#endif
  if constexpr (Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Exec::memory_space>::accessible) {
    std::ifstream facts("/proc/meminfo");
    for (std::string word; facts >> word;) {
      std::size_t kibibytes = 0;
      if (word == "MemAvailable:" && facts >> kibibytes) return kibibytes * 1024;
    }
  }
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace vocabloss::Impl

#endif
