// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vocabloss/loss/accuracy.hpp>

#include "half_bits.hpp"

namespace entropy_sweep {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// ours - reference, with the cases that subtraction gets wrong.
double difference(double ours, double reference) {
  if (std::isnan(ours) && std::isnan(reference)) return 0;
  if (ours == reference) return 0;  // infinities of one sign among them
  const double gap = std::fabs(ours - reference);
  return std::isnan(gap) ? infinity : gap;
}

/// Double to float, rounding to odd: keeps in the last bit that something was cut off, so that a second rounding to a
/// format of at least two bits less gives what one rounding would have given.
float narrowed_to_odd(double value) {
  float narrow = static_cast<float>(value);
  if (!std::isfinite(narrow) || static_cast<double>(narrow) == value) return narrow;
  if (std::fabs(static_cast<double>(narrow)) > std::fabs(value)) narrow = std::nextafterf(narrow, 0.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(narrow) | 1u);
}

}  // namespace

double loss_error(double ours, double reference) {
  const double gap = difference(ours, reference);
  if (gap == 0 || std::isinf(gap)) return gap;
  return gap / std::max(1.0, std::fabs(reference));
}

double gradient_error(std::span<const double> ours, std::span<const double> reference) {
  double gap = 0;
  double norm = 0;
  for (std::size_t j = 0; j < reference.size(); ++j) {
    const double one = difference(ours[j], reference[j]);
    gap += one * one;
    if (std::isfinite(reference[j])) norm += reference[j] * reference[j];
  }
  return std::sqrt(gap) / std::max(std::sqrt(norm), 1e-6);
}

double loss_limit(ValueType type) { return type == ValueType::fp64 ? 1e-12 : 1e-5; }

double gradient_limit(ValueType type) {
  switch (type) {
    case ValueType::bf16:
    case ValueType::fp16:
      return 1e-3;
    case ValueType::fp32:
      return 1e-5;
    case ValueType::fp64:
      break;
  }
  return 1e-12;
}

std::string failure(ValueType type, std::optional<double> loss, std::optional<double> gradient) {
  const auto exceeds = [](std::optional<double> error, double limit) { return error && !(*error <= limit); };
  if (exceeds(loss, loss_limit(type))) return fmt::format("loss_error {:.1e} above {:g}", *loss, loss_limit(type));
  if (exceeds(gradient, gradient_limit(type))) {
    return fmt::format("grad_error {:.1e} above {:g}", *gradient, gradient_limit(type));
  }
  return {};
}

std::string bits_of(const std::vector<std::vector<double>>& losses) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const auto& output : losses) {
    for (const double value : output) {
      const auto bits = std::isnan(value) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(value);
      for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (bits >> (8 * byte) & 0xffu)) * 1099511628211u;
    }
  }
  return fmt::format("{:016x}", hash);
}

std::string difference_of_ranks(const std::vector<std::string>& bits) {
  for (std::size_t rank = 1; rank < bits.size(); ++rank) {
    if (bits[rank] != bits[0]) return fmt::format("losses of rank {} differ from rank 0's in bits", rank);
  }
  return {};
}

std::vector<std::int64_t> rows_to_check(std::int64_t rows, std::int64_t vocab) {
  constexpr std::int64_t all_elements = std::int64_t{1} << 24;
  constexpr std::int64_t some = 32;
  const bool all = rows <= some || rows <= all_elements / vocab;
  const std::int64_t count = all ? rows : some;
  std::vector<std::int64_t> chosen;
  for (std::int64_t k = 0; k < count; ++k) {
    // Whole quotient and remainder apart: k * (rows - 1) could leave 64 bits.
    const std::int64_t whole = (rows - 1) / (some - 1);
    const std::int64_t rest = (rows - 1) % (some - 1);
    chosen.push_back(all ? k : k * whole + k * rest / (some - 1));
  }
  return chosen;
}

double rounded_to(ValueType type, double value) {
  switch (type) {
    case ValueType::bf16:
      return bf16_to_double(bf16_from_float(narrowed_to_odd(value)));
    case ValueType::fp16:
      return fp16_to_double(fp16_from_float(narrowed_to_odd(value)));
    case ValueType::fp32:
      return static_cast<double>(static_cast<float>(value));
    case ValueType::fp64:
      break;
  }
  return value;
}

double nearest_to(ValueType type, double exact, double terms, double ours) {
  namespace reference = vocabloss::reference;
  const double rounded = rounded_to(type, exact);
  if (rounded == ours || (type != ValueType::bf16 && type != ValueType::fp16)) return rounded;
  const reference::Format& format = type == ValueType::bf16 ? reference::bf16 : reference::fp16;
  return reference::is_rounded_once(format, ours, exact, terms) ? ours : rounded;
}

}  // namespace entropy_sweep
