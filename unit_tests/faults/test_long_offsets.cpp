// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Rows further apart than 2^31 elements, through whole calls: memory that is reserved but, between the rows, never
// touched.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vocabloss/vocabloss.hpp>

#include <cmath>

namespace {

using vocabloss::bfloat16;
using Exec = Kokkos::DefaultHostExecutionSpace;
using Rows = Kokkos::View<bfloat16**, Kokkos::LayoutStride, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

constexpr std::int64_t rows = 4;
constexpr std::int64_t columns = 40;
constexpr std::int64_t stride = (std::int64_t{1} << 31) - 7;  // elements; row 2 lies beyond 2^32

/// Address space without memory behind it, until it is written to.
class Reserved {
 public:
  static constexpr std::size_t bytes = ((rows - 1) * stride + columns) * sizeof(bfloat16);
  Reserved()
      : data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Reserved() {
    if (ok()) munmap(data_, bytes);
  }
  Reserved(const Reserved&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  Rows view() const { return Rows(static_cast<bfloat16*>(data_), Kokkos::LayoutStride(rows, stride, columns, 1)); }

 private:
  void* data_;
};

TEST(FaultsOfIndexing, A1_A3_A5_RowsBeyondTheReachOfInt) {
  const Reserved logits_memory, gradient_memory;
  if (!logits_memory.ok() || !gradient_memory.ok()) GTEST_SKIP() << "no address space";
  const Rows logits = logits_memory.view();
  const Rows gradient = gradient_memory.view();
  Kokkos::View<std::int64_t*, Kokkos::HostSpace> labels("labels", rows);
  Kokkos::View<float*, Kokkos::HostSpace> losses("losses", rows);
  for (int i = 0; i < rows; ++i) {
    labels(i) = i;
    for (int j = 0; j < columns; ++j) logits(i, j) = vocabloss::narrow<bfloat16>(j == i ? 2.0f + i : 0.0f);
  }
  vocabloss::Batch<bfloat16, Exec> batch;
  batch.logits(logits).labels(labels).losses(losses).gradient(gradient);
  for (const auto path : {vocabloss::Path::team, vocabloss::Path::reference, vocabloss::Path::naive}) {
    for (int i = 0; i < rows; ++i) losses(i) = std::nanf("");
    vocabloss::forward_backward<vocabloss::loss::CrossEntropy>(Exec(), batch, {}, {.path = path});
    for (int i = 0; i < rows; ++i) {
      const double others = (columns - 1) * std::exp(-2.0 - i);
      EXPECT_NEAR(losses(i), std::log1p(others), 1e-5) << name_of(path) << ", row " << i;
      const double expected = -others / (1 + others);
      EXPECT_NEAR(vocabloss::widen(gradient(i, i)), expected, 0.01 * std::fabs(expected))
          << name_of(path) << ", row " << i;
      gradient(i, i) = vocabloss::narrow<bfloat16>(0.0f);
    }
  }
}

}  // namespace
