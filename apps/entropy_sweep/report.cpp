// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "atomic_file.hpp"

namespace entropy_sweep {
namespace {

using Json = nlohmann::ordered_json;  // fields in the order of the contract

Json number(std::optional<double> value) { return value && std::isfinite(*value) ? Json(*value) : Json(nullptr); }
Json integer(std::optional<std::int64_t> value) { return value ? Json(*value) : Json(nullptr); }
Json text(const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); }

Json json_of(const Context& context) {
  return {{"card", context.card},
          {"date", context.date},
          {"version", context.version},
          {"git", context.git},
          {"driver", text(context.driver)},
          {"execution", text(context.execution)},
          {"back_to_back", context.back_to_back},
          {"graph", context.graph}};
}

/// One record for both files, so that they cannot disagree.
Json json_of(const Result& result) {
  const Case& point = result.point;
  const auto ms = [&result](double Milliseconds::*field) {
    return number(result.ms ? std::optional<double>((*result.ms).*field) : std::nullopt);
  };
  Json record;
  record["loss"] = to_name(point.loss);
  record["path"] = to_name(point.path);
  record["exchange"] = point.exchange ? Json(to_name(*point.exchange)) : Json(nullptr);
  record["comm"] = to_name(point.comm);
  record["pass"] = to_name(point.pass);
  record["rows"] = point.rows;
  record["vocab"] = point.vocab;
  record["columns"] = result.columns;
  record["ranks"] = result.ranks;
  record["type"] = to_name(point.type);
  record["block_cap"] = integer(result.block_cap ? result.block_cap : point.block_cap);
  record["plan"] = text(result.plan);
  record["in_place"] = point.in_place;
  record["accumulate"] = point.accumulate;
  record["input"] = text(result.input);
  record["ms"] = {
      {"median", ms(&Milliseconds::median)}, {"min", ms(&Milliseconds::min)}, {"max", ms(&Milliseconds::max)}};
  record["bytes"] = result.bytes();
  record["gb_per_s"] = number(result.gb_per_s());
  record["share_of_stream"] = number(result.share_of_stream);
  record["peak_extra_bytes"] = integer(result.peak_extra_bytes);
  record["loss_error"] = number(result.loss_error);
  record["grad_error"] = number(result.grad_error);
  record["status"] = result.status;
  return record;
}

std::string cell(const Json& value) {
  if (value.is_null()) return {};
  if (!value.is_string()) return value.dump();
  const auto content = value.get<std::string>();
  if (content.find_first_of(",\"\r\n") == std::string::npos) return content;
  std::string quoted = "\"";
  for (const char c : content) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

/// Names and values of one line; `ms` becomes three columns, `context` adds its own at the end.
std::vector<std::pair<std::string, Json>> columns_of(const Json& record, const Json& context) {
  std::vector<std::pair<std::string, Json>> columns;
  for (const auto& [name, value] : record.items()) {
    if (value.is_object()) {
      for (const auto& [part, inner] : value.items()) columns.emplace_back(name + "_" + part, inner);
    } else {
      columns.emplace_back(name, value);
    }
  }
  for (const auto& [name, value] : context.items()) columns.emplace_back(name, value);
  return columns;
}

std::string line_of(const std::vector<std::pair<std::string, Json>>& columns, bool names) {
  std::string line;
  for (const auto& [name, value] : columns) line += (line.empty() ? "" : ",") + (names ? name : cell(value));
  return line + "\n";
}

}  // namespace

std::optional<double> Result::gb_per_s() const {
  if (!ms || !(ms->median > 0) || bytes() == 0) return std::nullopt;
  return static_cast<double>(bytes()) / (ms->median * 1e6);
}

Outcome outcome_of(const Result& result) {
  const std::string_view word = std::string_view(result.status).substr(0, result.status.find(':'));
  if (word == "ok") return Outcome::ok;
  if (word == "refused") return Outcome::refused;
  if (word == "oom") return Outcome::oom;
  return Outcome::failed;
}

int exit_code_of(const std::vector<Result>& results) {
  const auto any = [&results](Outcome wanted) {
    return std::any_of(results.begin(), results.end(), [wanted](const Result& r) { return outcome_of(r) == wanted; });
  };
  if (any(Outcome::failed)) return exit_failed;
  if (any(Outcome::refused) || any(Outcome::oom)) return exit_refused;
  return exit_ok;
}

std::string to_json(const Context& context, const std::vector<Result>& results) {
  Json document;
  document["context"] = json_of(context);
  document["results"] = Json::array();
  for (const Result& result : results) document["results"].push_back(json_of(result));
  // Names from a device or a file need not be UTF-8; a bad byte must not cost the whole record.
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_csv(const Context& context, const std::vector<Result>& results) {
  const Json shared = json_of(context);
  const Result empty;  // a temporary here draws a false warning from GCC 12
  std::string table = line_of(columns_of(json_of(empty), shared), true);
  for (const Result& result : results) table += line_of(columns_of(json_of(result), shared), false);
  return table;
}

void write_json(const std::string& path, const Context& context, const std::vector<Result>& results) {
  write_file(path, to_json(context, results));
}

void write_csv(const std::string& path, const Context& context, const std::vector<Result>& results) {
  write_file(path, to_csv(context, results));
}

}  // namespace entropy_sweep
