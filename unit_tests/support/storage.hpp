// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_STORAGE_HPP
#define VOCABLOSS_TEST_STORAGE_HPP

/// \file
/// Values in the memory of the execution space, as a caller might keep them: any type, stride and alignment, surrounded
/// by bytes that are NaN in every floating type, so that reading them shows and writing them is noticed.

#include <vocabloss/types.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>
#include <vector>

namespace test {

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;

template <class T>
T encode(double value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value);
  } else if constexpr (sizeof(T) == 2) {
    return vocabloss::narrow<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
double decode(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<double>(value);
  } else {
    return vocabloss::widen(value);
  }
}

/// [rows, columns] values of T behind a row stride, `offset` elements into an aligned allocation.
template <class T>
class Stored {
 public:
  static constexpr std::int64_t guard = 67;

  Stored(std::int64_t rows, std::int64_t columns, std::int64_t stride, std::int64_t offset)
      : rows_(rows),
        columns_(columns),
        stride_(stride),
        offset_(offset),
        device_("test", (rows * stride + offset + guard) * sizeof(T)),
        host_(Kokkos::create_mirror_view(device_)) {
    std::memset(host_.data(), 0xff, host_.size());
    Kokkos::deep_copy(device_, host_);
  }

  void write(const std::vector<double>& values) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < columns_; ++j) put(i, j, encode<T>(values[i * columns_ + j]));
    }
    Kokkos::deep_copy(device_, host_);
  }

  /// Fetches from the device. \return the values, row by row
  std::vector<double> read() {
    const std::vector<char> before(host_.data(), host_.data() + host_.size());
    Kokkos::deep_copy(host_, device_);
    std::vector<double> values(rows_ * columns_);
    std::vector<bool> inside(host_.size(), false);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < columns_; ++j) {
        const std::size_t at = (offset_ + i * stride_ + j) * sizeof(T);
        T value;
        std::memcpy(&value, host_.data() + at, sizeof value);
        values[i * columns_ + j] = decode(value);
        for (std::size_t b = 0; b < sizeof(T); ++b) inside[at + b] = true;
      }
    }
    surroundings_intact_ = true;
    unchanged_ = true;
    for (std::size_t b = 0; b < host_.size(); ++b) {
      if (host_(b) == before[b]) continue;
      unchanged_ = false;
      if (!inside[b]) surroundings_intact_ = false;
    }
    return values;
  }

  /// As of the last read: whether only elements were written, and whether nothing was.
  bool surroundings_intact() const { return surroundings_intact_; }
  bool unchanged() const { return unchanged_; }

  using Matrix = Kokkos::View<T**, Kokkos::LayoutStride, Memory, Kokkos::MemoryUnmanaged>;
  using Vector = Kokkos::View<T*, Kokkos::LayoutStride, Memory, Kokkos::MemoryUnmanaged>;
  Matrix matrix() const { return Matrix(data(), Kokkos::LayoutStride(rows_, stride_, columns_, 1)); }
  Vector vector() const { return Vector(data(), Kokkos::LayoutStride(rows_, stride_)); }
  /// The first value for all of `rows`.
  Vector broadcast(std::int64_t rows) const { return Vector(data(), Kokkos::LayoutStride(rows, 0)); }

 private:
  T* data() const { return reinterpret_cast<T*>(device_.data()) + offset_; }
  void put(std::int64_t i, std::int64_t j, T value) {
    std::memcpy(host_.data() + (offset_ + i * stride_ + j) * sizeof(T), &value, sizeof value);
  }

  std::int64_t rows_, columns_, stride_, offset_;
  Kokkos::View<char*, Memory> device_;
  Kokkos::View<char*, Memory>::HostMirror host_;
  bool surroundings_intact_ = true;
  bool unchanged_ = true;
};

}  // namespace test

#endif
