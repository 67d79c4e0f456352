// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_TENSOR_HPP
#define ENTROPY_SWEEP_TENSOR_HPP

/// \file
/// A tensor as it lies in a file: name, type, shape, bytes; and the way from its bytes to numbers.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace entropy_sweep {

/// `other` stands for the types of the format that this program has no use for: such tensors may be in a file but not
/// be asked for.
enum class Dtype { bf16, f16, f32, f64, i64, i32, u8, boolean, other };

std::string_view to_name(Dtype dtype);
/// Bytes of one element; 0 for `other`.
std::size_t size_of(Dtype dtype);
std::optional<Dtype> dtype_from_name(std::string_view name);
/// "BF16, F16, ...": the types that can be read, for messages.
std::string all_dtype_names();

/// Anything wrong with a file or with what was asked of it; the message names file, tensor and both values.
class SafetensorsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A tensor in memory that somebody else keeps: the file's mapping when read, the caller's buffer when written.
struct Tensor {
  std::string name{};
  Dtype dtype = Dtype::other;
  std::vector<std::int64_t> shape{};
  std::span<const std::byte> bytes{};  ///< row-major, little-endian, of any alignment

  std::int64_t elements() const;
};

/// Values of a tensor as double (floating and integer types) or as 64-bit integers (integer types and BOOL only, else
/// SafetensorsError). Exact, but for I64 beyond 2^53 as double.
std::vector<double> to_doubles(const Tensor& tensor);
/// The `count` elements from `first` on: large tensors are converted in pieces.
std::vector<double> to_doubles(const Tensor& tensor, std::int64_t first, std::int64_t count);
std::vector<std::int64_t> to_integers(const Tensor& tensor);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_TENSOR_HPP
