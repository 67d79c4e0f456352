// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_NAMES_HPP
#define ENTROPY_SWEEP_NAMES_HPP

/// \file
/// The words of the command line and of the results: every choice that has a name, and its one spelling.
/// Options, cases and results share these tables, so a name is written once and help, messages and files agree.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace entropy_sweep {

enum class Loss {
  cross_entropy,
  soft_cross_entropy,
  forward_kl,
  reverse_kl,
  jsd,
  z_loss,
  entropy,
  log_prob,
  log_prob_entropy
};
enum class Path { reference, naive, team, cluster, split, gather, automatic };
enum class Exchange { two_allreduce, allgather, in_kernel };
enum class Comm { self, mpi, nccl };
enum class ValueType { bf16, fp16, fp32, fp64 };
enum class Pass { forward, backward, forward_backward };
enum class Data { normal, peaked };

/// All values of an enumeration with their names, in the order in which help lists them.
template <class Enum>
std::span<const std::pair<Enum, std::string_view>> name_table();

template <>
std::span<const std::pair<Loss, std::string_view>> name_table<Loss>();
template <>
std::span<const std::pair<Path, std::string_view>> name_table<Path>();
template <>
std::span<const std::pair<Exchange, std::string_view>> name_table<Exchange>();
template <>
std::span<const std::pair<Comm, std::string_view>> name_table<Comm>();
template <>
std::span<const std::pair<ValueType, std::string_view>> name_table<ValueType>();
template <>
std::span<const std::pair<Pass, std::string_view>> name_table<Pass>();
template <>
std::span<const std::pair<Data, std::string_view>> name_table<Data>();

/// The spelling of a value.
template <class Enum>
std::string_view to_name(Enum value) {
  for (const auto& [entry, name] : name_table<Enum>()) {
    if (entry == value) return name;
  }
  return "unknown";
}

/// The value of a spelling; nothing when no value is spelled so.
template <class Enum>
std::optional<Enum> from_name(std::string_view text) {
  for (const auto& [entry, name] : name_table<Enum>()) {
    if (name == text) return entry;
  }
  return std::nullopt;
}

/// "a, b, c": the allowed words, for help and for messages.
template <class Enum>
std::string all_names() {
  std::string list;
  for (const auto& [entry, name] : name_table<Enum>()) {
    if (!list.empty()) list += ", ";
    list += name;
  }
  return list;
}

/// Whether the loss reads a teacher, and whether it reads labels: decides which streams a problem has.
bool needs_teacher(Loss loss);
bool needs_labels(Loss loss);

/// Bytes of one element.
int size_of(ValueType type);

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_NAMES_HPP
