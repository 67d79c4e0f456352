// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "names.hpp"

#include <array>

namespace entropy_sweep {
namespace {

template <class Enum>
using Entry = std::pair<Enum, std::string_view>;

constexpr auto losses = std::to_array<Entry<Loss>>({
    {Loss::cross_entropy, "cross_entropy"},
    {Loss::soft_cross_entropy, "soft_cross_entropy"},
    {Loss::forward_kl, "forward_kl"},
    {Loss::reverse_kl, "reverse_kl"},
    {Loss::jsd, "jsd"},
    {Loss::z_loss, "z_loss"},
    {Loss::entropy, "entropy"},
    {Loss::log_prob, "log_prob"},
    {Loss::log_prob_entropy, "log_prob_entropy"},
});
constexpr auto paths = std::to_array<Entry<Path>>({
    {Path::reference, "reference"},
    {Path::naive, "naive"},
    {Path::team, "team"},
    {Path::cluster, "cluster"},
    {Path::split, "split"},
    {Path::gather, "gather"},
    {Path::automatic, "auto"},
});
constexpr auto exchanges = std::to_array<Entry<Exchange>>({
    {Exchange::two_allreduce, "two_allreduce"},
    {Exchange::allgather, "allgather"},
    {Exchange::in_kernel, "in_kernel"},
});
constexpr auto comms = std::to_array<Entry<Comm>>({
    {Comm::self, "self"},
    {Comm::mpi, "mpi"},
    {Comm::nccl, "nccl"},
});
constexpr auto types = std::to_array<Entry<ValueType>>({
    {ValueType::bf16, "bf16"},
    {ValueType::fp16, "fp16"},
    {ValueType::fp32, "fp32"},
    {ValueType::fp64, "fp64"},
});
constexpr auto passes = std::to_array<Entry<Pass>>({
    {Pass::forward, "forward"},
    {Pass::backward, "backward"},
    {Pass::forward_backward, "forward_backward"},
});
constexpr auto data_kinds = std::to_array<Entry<Data>>({
    {Data::normal, "normal"},
    {Data::peaked, "peaked"},
});

}  // namespace

template <>
std::span<const Entry<Loss>> name_table<Loss>() {
  return losses;
}
template <>
std::span<const Entry<Path>> name_table<Path>() {
  return paths;
}
template <>
std::span<const Entry<Exchange>> name_table<Exchange>() {
  return exchanges;
}
template <>
std::span<const Entry<Comm>> name_table<Comm>() {
  return comms;
}
template <>
std::span<const Entry<ValueType>> name_table<ValueType>() {
  return types;
}
template <>
std::span<const Entry<Pass>> name_table<Pass>() {
  return passes;
}
template <>
std::span<const Entry<Data>> name_table<Data>() {
  return data_kinds;
}

bool needs_teacher(Loss loss) {
  return loss == Loss::soft_cross_entropy || loss == Loss::forward_kl || loss == Loss::reverse_kl || loss == Loss::jsd;
}

bool needs_labels(Loss loss) {
  return loss == Loss::cross_entropy || loss == Loss::log_prob || loss == Loss::log_prob_entropy;
}

int size_of(ValueType type) {
  switch (type) {
    case ValueType::bf16:
    case ValueType::fp16:
      return 2;
    case ValueType::fp32:
      return 4;
    case ValueType::fp64:
      return 8;
  }
  return 0;
}

}  // namespace entropy_sweep
