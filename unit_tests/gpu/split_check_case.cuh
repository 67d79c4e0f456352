// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_SPLIT_CHECK_CASE_CUH
#define VOCABLOSS_SPLIT_CHECK_CASE_CUH

/// \file
/// \brief One problem for split_check: buffers with guard zones around every row, and the serial double reference.

#include <vocabloss/impl/cuda/split_shipped.cuh>
#include <vocabloss/loss/reference.hpp>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>
#include <vector>

namespace split_check {

using namespace vocabloss;
using Impl::RowCall;
using Impl::SplitShape;

inline void cuda(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::printf("FAILED %s: %s\n", what, cudaGetErrorString(code));
  std::exit(2);
}
#define CUDA(call) ::split_check::cuda(call, #call)

/// A loss as the checker calls it: launches by type, and the oracle.
struct LossEntry {
  const char* name;
  int streams;
  bool needs_label, teacher_is_logits;
  int outputs, statistics;
  std::function<void(DataType, const RowCall<float>&, Pass, const SplitShape&, void*, cudaStream_t)> launch;
  std::function<reference::RowOutput(const reference::RowInput&)> expected;
  std::function<std::size_t(const SplitShape&)> workspace_bytes;
  int blocks_each;  ///< blocks of this loss that share a multiprocessor
};

inline double read(DataType type, const unsigned char* data, std::int64_t i) {
  switch (type) {
    case DataType::bf16:
      return widen(reinterpret_cast<const bfloat16*>(data)[i]);
    case DataType::fp16:
      return widen(reinterpret_cast<const float16*>(data)[i]);
    default:
      return reinterpret_cast<const float*>(data)[i];
  }
}
inline void write(DataType type, unsigned char* data, std::int64_t i, double value) {
  const float rounded = static_cast<float>(value);
  if (type == DataType::bf16) reinterpret_cast<bfloat16*>(data)[i] = narrow<bfloat16>(rounded);
  if (type == DataType::fp16) reinterpret_cast<float16*>(data)[i] = narrow<float16>(rounded);
  if (type == DataType::fp32) reinterpret_cast<float*>(data)[i] = rounded;
}

/// A device buffer and its contents on the host.
struct Buffer {
  std::vector<unsigned char> host;
  unsigned char* device = nullptr;

  Buffer() = default;
  explicit Buffer(std::size_t bytes, unsigned char fill = 0) : host(bytes, fill) {
    CUDA(cudaMalloc(&device, bytes + 16));
    upload();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(host, other.host);
    std::swap(device, other.device);
    return *this;
  }
  ~Buffer() { cudaFree(device); }
  void upload() { CUDA(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice)); }
  std::vector<unsigned char> download() const {
    std::vector<unsigned char> bytes(host.size());
    CUDA(cudaMemcpy(bytes.data(), device, bytes.size(), cudaMemcpyDeviceToHost));
    return bytes;
  }
};

/// Rows of values at some offset and stride, guard bytes before, between and after them.
struct Matrix {
  static constexpr unsigned char guard = 0xff;  // reads as NaN in every type
  DataType type = DataType::fp32;
  std::int64_t rows = 0, columns = 0, stride = 0, offset = 0;
  Buffer buffer;

  void shape(DataType t, std::int64_t r, std::int64_t c, std::int64_t pad, std::int64_t off) {
    type = t, rows = r, columns = c, stride = c + pad, offset = 64 + off;
    buffer =
        Buffer((offset + (rows ? (rows - 1) * stride + columns : 0) + (off || pad ? 64 : 0)) * size_of(type), guard);
  }
  std::int64_t index(std::int64_t i, std::int64_t j) const { return offset + i * stride + j; }
  void* first() const { return buffer.device + offset * size_of(type); }
};

struct Case {
  const char* what = "";
  DataType type = DataType::bf16, teacher_type = DataType::bf16, gradient_type = DataType::bf16;
  std::int64_t rows = 1, columns = 1;
  int pad = 0, offset = 0, teacher_offset = 0, gradient_offset = 0;
  bool in_place = false, accumulate = false, two_calls = false, special = false, long_labels = true;
  int group = 0;      ///< 0: chosen
  int most_rows = 0;  ///< groups at most; 0: chosen
  double spread = 1;
};

/// Where special values go, by row: a mask, labels outside, ignored rows, infinities and NaN.
struct Special {
  static bool masked(const Case& c, std::int64_t i) { return c.special && i % 11 == 3; }
  static bool ignored(const Case& c, std::int64_t i) { return c.special && i % 11 == 5; }
  static bool label_outside(const Case& c, std::int64_t i) { return c.special && i % 11 == 7; }
  static bool nan_inside(const Case& c, std::int64_t i) { return c.special && (i % 11 == 8 || masked(c, i)); }
  static bool plus_infinity(const Case& c, std::int64_t i) { return c.special && i % 11 == 9; }
  static bool all_minus_infinity(const Case& c, std::int64_t i) { return c.special && i % 11 == 10; }
  static bool some_minus_infinity(const Case& c, std::int64_t i) { return c.special && i % 11 < 3; }
  static bool teacher_minus_infinity(const Case& c, std::int64_t i) { return c.special && i % 11 == 1; }
};

inline void fill(Matrix& m, const Case& c, bool is_teacher, bool is_probability, int seed) {
  std::vector<std::thread> threads;
  const int workers = static_cast<int>(std::min<std::int64_t>(m.rows, std::thread::hardware_concurrency()));
  for (int k = 0; k < workers; ++k) {
    threads.emplace_back([&, k] {
      const double infinity = std::numeric_limits<double>::infinity();
      for (std::int64_t i = k; i < m.rows; i += workers) {
        std::mt19937_64 random(seed * 1000003 + i);
        std::normal_distribution<double> normal(0.0, c.spread);
        for (std::int64_t j = 0; j < m.columns; ++j) {
          double value = normal(random);
          if (is_probability) value = std::fabs(value) / static_cast<double>(m.columns);
          // Row 2 of 11: in the logits alone, where forward KL becomes infinite.
          const bool both = i % 11 != 2;
          if (!is_probability && Special::some_minus_infinity(c, i) && j % 5 == 1 && (both || !is_teacher)) {
            value = -infinity;
          }
          if (is_teacher && !is_probability && Special::teacher_minus_infinity(c, i) && j % 5 == 2) value = -infinity;
          if (!is_probability && Special::all_minus_infinity(c, i)) value = -infinity;
          if (Special::plus_infinity(c, i) && !is_teacher && j == m.columns / 2) value = infinity;
          if (Special::nan_inside(c, i) && is_teacher == (i % 2 == 1) && j == m.columns - 1) value = std::nan("");
          write(m.type, m.buffer.host.data(), m.index(i, j), value);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  m.buffer.upload();
}

}  // namespace split_check

#endif
