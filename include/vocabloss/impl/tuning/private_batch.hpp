// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_TUNING_PRIVATE_BATCH_HPP
#define VOCABLOSS_IMPL_TUNING_PRIVATE_BATCH_HPP

/// \file
/// \brief A batch that reads what the caller's reads and writes nothing of the caller's: for calls made to be timed.

#include <vocabloss/batch.hpp>
#include <vocabloss/impl/allocate.hpp>
#include <vocabloss/impl/view_checks.hpp>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vocabloss::Impl {

/// Every buffer that a call of `pass` writes is a copy of the same strides and the same place within 256 bytes, so that
/// kernels do the same to it. Where a call reads what it overwrites (in place, accumulating), `restore` puts the
/// caller's values back. The caller's buffers must outlive this. memory: what the call writes, once more.
template <class Logit, class Exec>
class PrivateBatch {
 public:
  using Caller = Batch<Logit, Exec>;

  /// \throws OutOfMemory
  PrivateBatch(const Exec& exec, const Caller& caller, Pass pass) : batch_(caller) {
    const Problem problem = caller.problem();
    if (pass != Pass::forward && caller.gradient_.is_set) {
      substitute(exec, batch_.gradient_, problem.in_place || problem.accumulate);
      if (problem.in_place) batch_.logits_.data = batch_.gradient_.data;
    }
    for (ViewFacts& losses : batch_.losses_) substitute(exec, losses, false);
    // A backward reads statistics that another forward wrote: its plan's own, then.
    if (pass == Pass::backward) {
      batch_.statistics_ = {};
    } else {
      substitute(exec, batch_.statistics_, false);
    }
    if (batch_.summary_) {
      batch_.summary_ =
          reinterpret_cast<Summary<typename Caller::Real>*>(place_like(exec, batch_.summary_, sizeof *batch_.summary_));
    }
    restore(exec);
    exec.fence("VocabLoss::PrivateBatch");
  }

  const Caller& batch() const { return batch_; }

  /// Enqueues copies.
  void restore(const Exec& exec) const {
    for (const Copy& copy : restored_) {
      Kokkos::deep_copy(exec, Unmanaged<char>(copy.to, copy.bytes), Unmanaged<const char>(copy.from, copy.bytes));
    }
  }

  /// Whether all rows of all streams begin at multiples of 16 bytes.
  static bool is_aligned(const Caller& caller) {
    for (const ViewFacts* facts : {&caller.logits_, &caller.teacher_, &caller.gradient_}) {
      if (facts->is_empty()) continue;
      const bool strided = facts->extent[0] > 1 && facts->stride[0] * facts->bytes % 16 != 0;
      if (strided || reinterpret_cast<std::uintptr_t>(facts->data) % 16 != 0) return false;
    }
    return true;
  }

 private:
  template <class T>
  using Unmanaged = Kokkos::View<T*, typename Exec::memory_space, Kokkos::MemoryUnmanaged>;
  struct Copy {
    char* to;
    const char* from;
    std::size_t bytes;
  };

  void substitute(const Exec& exec, ViewFacts& facts, bool is_read) {
    if (facts.is_empty()) return;
    const char* const from = facts.begin();
    const auto bytes = static_cast<std::size_t>(facts.end() - facts.begin());
    char* const to = place_like(exec, facts.data, bytes);
    facts.data = to;
    if (is_read) restored_.push_back({to, from, bytes});
  }

  char* place_like(const Exec& exec, const void* original, std::size_t bytes) {
    constexpr std::uintptr_t page = 256;
    buffers_.push_back(allocate_bytes(exec, "VocabLoss::tuning", bytes + page));
    const auto begin = reinterpret_cast<std::uintptr_t>(buffers_.back().data());
    return buffers_.back().data() + (reinterpret_cast<std::uintptr_t>(original) - begin) % page;
  }

  Caller batch_;
  std::vector<Bytes<Exec>> buffers_;
  std::vector<Copy> restored_;
};

}  // namespace vocabloss::Impl

#endif
