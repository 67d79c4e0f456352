// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "cases.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace entropy_sweep {
namespace {

/// Empty, or why no build on no machine could run this combination. What depends on the build, the card or the size is
/// not decided here: the plan refuses it with its reason, and the case stays in the results.
std::string impossible(Path path, ValueType type, Comm comm, std::optional<Exchange> exchange) {
  const bool cuda_only = path == Path::cluster || path == Path::split;
  if (cuda_only && type == ValueType::fp64) return fmt::format("path {} has no type fp64", to_name(path));
  if (comm == Comm::self) return path == Path::gather ? "path gather needs ranks (comm mpi or nccl)" : "";
  if (path == Path::reference || path == Path::split) {
    return fmt::format("path {} needs the whole vocabulary on one rank (comm self)", to_name(path));
  }
  if (!exchange) return {};  // path gather
  const bool in_kernel = exchange == Exchange::in_kernel;
  const bool fits = path == Path::naive ? exchange == Exchange::two_allreduce : path == Path::team ? !in_kernel : true;
  if (!fits) return fmt::format("path {} has no exchange {}", to_name(path), to_name(*exchange));
  return {};
}

std::vector<std::optional<Exchange>> exchanges_of(const Options& options, Path path) {
  if (options.comm == Comm::self || path == Path::gather) return {std::nullopt};
  return {options.exchanges.begin(), options.exchanges.end()};
}

std::vector<std::optional<std::int64_t>> block_caps_of(const Options& options, Path path) {
  if (path != Path::team || options.block_caps.empty()) return {std::nullopt};
  return {options.block_caps.begin(), options.block_caps.end()};
}

std::vector<std::string> variants_of(const Options& options, Path path) {
  if (path != Path::cluster || options.variants.empty()) return {""};
  return options.variants;
}

void add_once(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

template <class Item>
std::string joined(const std::vector<Item>& items) {
  return fmt::format("{}", fmt::join(items, "; "));
}

}  // namespace

Sweep make_sweep(const Options& options, const std::optional<InputShape>& input) {
  Sweep sweep;
  std::vector<std::int64_t> vocabs = options.vocabs;
  std::vector<std::int64_t> rows_list = options.rows;
  std::vector<ValueType> types = options.types;
  if (input) {
    vocabs = {input->vocab};
    rows_list = {input->rows};
    if (!options.type_given) types = {input->type};
  }

  const std::optional<ValueType> teacher = input ? input->teacher : std::nullopt;

  std::vector<std::string> reasons;
  const auto add = [&](Case one) {
    const std::string reason = impossible(one.path, one.type, one.comm, one.exchange);
    if (!reason.empty()) {
      add_once(reasons, reason);
    } else {
      sweep.cases.push_back(std::move(one));
    }
  };
  for (const std::int64_t vocab : vocabs) {
    for (const std::int64_t rows : rows_list) {
      for (const ValueType type : types) {
        for (const Loss loss : options.losses) {
          for (const Path path : options.paths) {
            for (const auto& exchange : exchanges_of(options, path)) {
              for (const auto& block_cap : block_caps_of(options, path)) {
                for (const std::string& variant : variants_of(options, path)) {
                  add({.loss = loss,
                       .path = path,
                       .exchange = exchange,
                       .comm = options.comm,
                       .pass = options.pass,
                       .rows = rows,
                       .vocab = vocab,
                       .type = type,
                       .block_cap = block_cap,
                       .variant = variant,
                       .in_place = options.in_place && options.pass != Pass::forward,
                       .teacher = needs_teacher(loss) ? teacher : std::nullopt});
                }
              }
            }
          }
        }
      }
    }
  }

  if (!reasons.empty()) sweep.notes.push_back("left out: " + joined(reasons));
  const auto has_path = [&](Path path) {
    return std::find(options.paths.begin(), options.paths.end(), path) != options.paths.end();
  };
  if (!options.block_caps.empty() && !has_path(Path::team)) {
    sweep.notes.push_back("--block-cap is not used: no path is team");
  }
  if (!options.variants.empty() && !has_path(Path::cluster)) {
    sweep.notes.push_back("--variant is not used: no path is cluster");
  }
  if (!options.tune.empty() && !has_path(Path::automatic)) {
    sweep.notes.push_back("--tune is not used: no path is auto");
  }
  if (options.in_place && options.pass == Pass::forward) {
    sweep.notes.push_back("--in-place is not used: --pass forward writes no gradient");
  }
  if (sweep.cases.empty()) sweep.notes.push_back("no case is left to run");
  return sweep;
}

std::string describe(const Case& one) {
  std::string text = fmt::format("{} {}", to_name(one.loss), to_name(one.path));
  if (one.block_cap) text += fmt::format(" cap {}", *one.block_cap);
  if (!one.variant.empty()) text += fmt::format(" {}", one.variant);
  if (one.exchange) text += fmt::format(" {}", to_name(*one.exchange));
  return text + fmt::format(", {} x {} {}", one.rows, one.vocab, to_name(one.type));
}

std::int64_t bytes_of(const Case& one) {
  std::int64_t each = size_of(one.type);
  if (needs_teacher(one.loss)) each += size_of(one.teacher.value_or(one.type));
  if (one.pass != Pass::forward) each += size_of(one.type) * (one.accumulate ? 2 : 1);  // the old gradient is read too
  return one.rows * one.vocab * each;
}

}  // namespace entropy_sweep
