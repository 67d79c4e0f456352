// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_COMM_SELF_HPP
#define VOCABLOSS_COMM_SELF_HPP

/// \file
/// \brief The communicator of one rank: every exchange is a copy. A Plan without a communicator behaves as if over
/// this.

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <string>

namespace vocabloss::comm {

class Self {
 public:
  static constexpr bool is_asynchronous = true;

  Self() = default;
  Self(Self&&) = default;
  Self& operator=(Self&&) = default;

  int rank() const { return 0; }
  int size() const { return 1; }

  template <class Exec, class Real>
  void all_gather(const Exec& exec, const Real* in, Real* out, std::size_t count) {
    using Memory = typename Exec::memory_space;
    if (count == 0) return;
    Kokkos::deep_copy(exec, Kokkos::View<Real*, Memory, Kokkos::MemoryUnmanaged>(out, count),
                      Kokkos::View<const Real*, Memory, Kokkos::MemoryUnmanaged>(in, count));
  }
  template <class Exec, class Real>
  void all_reduce_max(const Exec& exec, const Real* in, Real* out, std::size_t count) {
    all_gather(exec, in, out, count);
  }
  template <class Exec, class Real>
  void all_reduce_sum(const Exec& exec, const Real* in, Real* out, std::size_t count) {
    all_gather(exec, in, out, count);
  }

  std::string poll_error() const { return {}; }
  void check() const {}
  template <class Exec>
  void wait(const Exec& exec) const {
    exec.fence("VocabLoss::comm::Self");
  }
  template <class Exec>
  std::string describe(const Exec&) const {
    return "self";
  }
};

}  // namespace vocabloss::comm

#endif
