// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "tensor.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "half_bits.hpp"

namespace entropy_sweep {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and are read in place");

struct DtypeEntry {
  Dtype dtype;
  std::string_view name;
  std::size_t size;
};
constexpr DtypeEntry dtypes[] = {
    {Dtype::bf16, "BF16", 2}, {Dtype::f16, "F16", 2}, {Dtype::f32, "F32", 4}, {Dtype::f64, "F64", 8},
    {Dtype::i64, "I64", 8},   {Dtype::i32, "I32", 4}, {Dtype::u8, "U8", 1},   {Dtype::boolean, "BOOL", 1},
};

template <class Stored, class Value, class Convert>
void convert(const Tensor& tensor, std::vector<Value>& values, Convert convert_one) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored;  // memcpy: a header of odd length leaves the data unaligned
    std::memcpy(&stored, tensor.bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = convert_one(stored);
  }
}

}  // namespace

std::string_view to_name(Dtype dtype) {
  for (const DtypeEntry& entry : dtypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "other";
}

std::size_t size_of(Dtype dtype) {
  for (const DtypeEntry& entry : dtypes) {
    if (entry.dtype == dtype) return entry.size;
  }
  return 0;
}

std::int64_t Tensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const DtypeEntry& entry : dtypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

std::string all_dtype_names() {
  std::string list;
  for (const DtypeEntry& entry : dtypes) list += (list.empty() ? "" : ", ") + std::string(entry.name);
  return list;
}

std::vector<double> to_doubles(const Tensor& tensor) { return to_doubles(tensor, 0, tensor.elements()); }

std::vector<double> to_doubles(const Tensor& whole, std::int64_t first, std::int64_t count) {
  Tensor tensor = whole;
  tensor.bytes = whole.bytes.subspan(static_cast<std::size_t>(first) * size_of(whole.dtype));
  std::vector<double> values(static_cast<std::size_t>(count));
  const auto plain = [](auto stored) { return static_cast<double>(stored); };
  switch (tensor.dtype) {
    case Dtype::bf16:
      convert<std::uint16_t>(tensor, values, bf16_to_double);
      break;
    case Dtype::f16:
      convert<std::uint16_t>(tensor, values, fp16_to_double);
      break;
    case Dtype::f32:
      convert<float>(tensor, values, plain);
      break;
    case Dtype::f64:
      convert<double>(tensor, values, plain);
      break;
    case Dtype::i64:
      convert<std::int64_t>(tensor, values, plain);
      break;
    case Dtype::i32:
      convert<std::int32_t>(tensor, values, plain);
      break;
    case Dtype::u8:
    case Dtype::boolean:
      convert<std::uint8_t>(tensor, values, plain);
      break;
    case Dtype::other:
      throw SafetensorsError(fmt::format("tensor '{}' has a type without numbers", tensor.name));
  }
  return values;
}

std::vector<std::int64_t> to_integers(const Tensor& tensor) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.elements()));
  const auto plain = [](auto stored) { return static_cast<std::int64_t>(stored); };
  switch (tensor.dtype) {
    case Dtype::i64:
      convert<std::int64_t>(tensor, values, plain);
      break;
    case Dtype::i32:
      convert<std::int32_t>(tensor, values, plain);
      break;
    case Dtype::u8:
    case Dtype::boolean:
      convert<std::uint8_t>(tensor, values, plain);
      break;
    default:
      throw SafetensorsError(
          fmt::format("tensor '{}' is {}; wanted I64, I32, U8 or BOOL", tensor.name, to_name(tensor.dtype)));
  }
  return values;
}

}  // namespace entropy_sweep
