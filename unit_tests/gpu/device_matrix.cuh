// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_DEVICE_MATRIX_CUH
#define VOCABLOSS_DEVICE_MATRIX_CUH

/// \file
/// \brief Device buffers with their image on the host, and rows of stored values with guard zones around every row.

#include <vocabloss/types.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace row_check {

using namespace vocabloss;

inline void cuda(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::printf("FAILED %s: %s\n", what, cudaGetErrorString(code));
  std::exit(2);
}
#define CUDA(call) ::row_check::cuda(call, #call)

/// f(i) for every row, on all cores where that is worth starting threads.
template <class F>
void for_rows(std::int64_t rows, std::int64_t columns, const F& f) {
  constexpr std::int64_t worth_a_thread = 40000;  // elements
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t workers = std::min({rows, cores, 1 + rows * columns / worth_a_thread});
  std::vector<std::thread> threads;
  for (std::int64_t k = 1; k < workers; ++k) {
    threads.emplace_back([&f, k, rows, workers] {
      for (std::int64_t i = k; i < rows; i += workers) f(i);
    });
  }
  for (std::int64_t i = 0; i < rows; i += workers) f(i);
  for (std::thread& thread : threads) thread.join();
}

inline double read(DataType type, const unsigned char* data, std::int64_t i) {
  if (type == DataType::bf16) return widen(reinterpret_cast<const bfloat16*>(data)[i]);
  if (type == DataType::fp16) return widen(reinterpret_cast<const float16*>(data)[i]);
  return reinterpret_cast<const float*>(data)[i];
}
inline void write(DataType type, unsigned char* data, std::int64_t i, float value) {
  if (type == DataType::bf16) reinterpret_cast<bfloat16*>(data)[i] = narrow<bfloat16>(value);
  if (type == DataType::fp16) reinterpret_cast<float16*>(data)[i] = narrow<float16>(value);
  if (type == DataType::fp32) reinterpret_cast<float*>(data)[i] = value;
}
/// What is left of a value when it is stored.
inline float stored(DataType type, float value) {
  if (type == DataType::bf16) return widen(narrow<bfloat16>(value));
  if (type == DataType::fp16) return widen(narrow<float16>(value));
  return value;
}

/// Device memory and its contents on the host. It grows and is used again: thousands of cases share a few allocations.
class Buffer {
 public:
  std::vector<unsigned char> host;

  Buffer() = default;
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(device_); }

  void fill(std::size_t bytes, unsigned char value) {
    host.assign(bytes, value);
    if (bytes <= capacity_) return;
    CUDA(cudaFree(device_));
    capacity_ = bytes + bytes / 2;
    CUDA(cudaMalloc(&device_, capacity_));
  }
  template <class T>
  void put(const std::vector<T>& values) {
    fill(values.size() * sizeof(T), 0);
    std::memcpy(host.data(), values.data(), host.size());
    upload();
  }
  void upload() { CUDA(cudaMemcpy(device_, host.data(), host.size(), cudaMemcpyHostToDevice)); }
  void download(std::vector<unsigned char>& bytes) const {
    bytes.resize(host.size());
    CUDA(cudaMemcpy(bytes.data(), device_, bytes.size(), cudaMemcpyDeviceToHost));
  }
  template <class T = unsigned char>
  T* device() const {
    return reinterpret_cast<T*>(device_);
  }

 private:
  unsigned char* device_ = nullptr;
  std::size_t capacity_ = 0;
};

/// Rows of values at some offset and stride, guard bytes before, between and after them.
struct Matrix {
  static constexpr unsigned char guard = 0xff;  // reads as NaN in every type
  static constexpr std::int64_t margin = 64;    // elements before the first row and after the last
  DataType type = DataType::fp32;
  std::int64_t rows = 0, columns = 0, stride = 0, offset = 0;
  Buffer buffer;

  void shape(DataType t, std::int64_t r, std::int64_t c, std::int64_t pad, std::int64_t off) {
    type = t, rows = r, columns = c, stride = c + pad, offset = margin + off;
    buffer.fill((offset + (rows - 1) * stride + columns + margin) * size_of(type), guard);
  }
  void put(const std::vector<float>& values) {
    for_rows(rows, columns, [&](std::int64_t i) {
      for (std::int64_t j = 0; j < columns; ++j) write(type, buffer.host.data(), index(i, j), values[i * columns + j]);
    });
  }
  std::int64_t index(std::int64_t i, std::int64_t j) const { return offset + i * stride + j; }
  void* first() const { return buffer.device() + offset * size_of(type); }

  /// Of an image of the buffer: whether all that is no column of a row is what it was.
  bool guards_hold(const std::vector<unsigned char>& bytes) const {
    const auto hold = [&](std::int64_t begin, std::int64_t end) {
      return std::all_of(bytes.begin() + begin * size_of(type), bytes.begin() + end * size_of(type),
                         [](unsigned char byte) { return byte == guard; });
    };
    if (!hold(0, offset)) return false;
    for (std::int64_t i = 0; i + 1 < rows; ++i) {
      if (!hold(index(i, columns), index(i + 1, 0))) return false;
    }
    return hold(index(rows - 1, columns), static_cast<std::int64_t>(bytes.size()) / size_of(type));
  }
};

}  // namespace row_check

#endif
