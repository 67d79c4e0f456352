// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include <vocabloss/tuning/record.hpp>
#include <vocabloss/version.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

namespace vocabloss {
namespace {

using Json = nlohmann::ordered_json;

/// Of the file: raised when fields change their meaning.
constexpr int format = 1;

[[noreturn]] void refuse(const std::string& file, const std::string& why, const std::string& remedy) {
  throw TuningRecordError("vocabloss: tuning record '" + file + "' " + why + ": " + remedy);
}
constexpr const char* other_file = "delete it, or name another file";

// ---- names ----

/// The member of `values` that is called so.
template <class Enum, std::size_t n>
Enum named(const std::array<Enum, n>& values, const std::string& name, const char* what) {
  for (const Enum value : values) {
    if (std::string_view(name_of(value)) == name) return value;
  }
  throw std::invalid_argument("there is no " + std::string(what) + " \"" + name + "\"");
}
constexpr std::array types = {DataType::fp64, DataType::fp32, DataType::fp16, DataType::bf16};
constexpr std::array passes = {Pass::forward, Pass::backward, Pass::forward_backward};
constexpr std::array exchanges = {Exchange::allgather, Exchange::two_allreduce, Exchange::in_kernel};

Json json_of(const std::optional<DataType>& type) { return type ? Json(name_of(*type)) : Json(nullptr); }
std::optional<DataType> type_in(const Json& field) {
  if (field.is_null()) return std::nullopt;
  return named(types, field.get<std::string>(), "type");
}

// ---- an entry ----

Json json_of(const TuningKey& key) {
  return {{"card", key.card},
          {"loss", key.loss},
          {"pass", name_of(key.pass)},
          {"rows", key.rows},
          {"vocab", key.vocab},
          {"columns", key.columns},
          {"ranks", key.ranks},
          {"communicator", key.communicator},
          {"exchange", key.exchange},
          {"logits", name_of(key.logits)},
          {"teacher", json_of(key.teacher)},
          {"gradient", json_of(key.gradient)},
          {"accumulate", key.accumulate},
          {"in_place", key.in_place},
          {"aligned", key.aligned}};
}

TuningKey key_in(const Json& json) {
  return {.card = json.at("card"),
          .loss = json.at("loss"),
          .pass = named(passes, json.at("pass"), "pass"),
          .rows = json.at("rows"),
          .vocab = json.at("vocab"),
          .columns = json.at("columns"),
          .ranks = json.at("ranks"),
          .communicator = json.at("communicator"),
          .exchange = json.at("exchange"),
          .logits = named(types, json.at("logits"), "type"),
          .teacher = type_in(json.at("teacher")),
          .gradient = type_in(json.at("gradient")),
          .accumulate = json.at("accumulate"),
          .in_place = json.at("in_place"),
          .aligned = json.at("aligned")};
}

Json json_of(const TunedChoice& choice) {
  const PlanRequest& request = choice.request;
  return {{"path", name_of(request.path)},
          {"block_cap", request.block_cap},
          {"exchange", name_of(request.exchange)},
          {"block_rows", request.block_rows},
          {"variant", request.variant},
          {"plan", choice.plan},
          {"ms", {{"median", choice.time.median_ms}, {"min", choice.time.min_ms}, {"max", choice.time.max_ms}}}};
}

TunedChoice choice_in(const Json& json) {
  TunedChoice choice;
  choice.request.path = named(all_paths, json.at("path"), "path");
  choice.request.block_cap = json.at("block_cap");
  choice.request.exchange = named(exchanges, json.at("exchange"), "exchange");
  choice.request.block_rows = json.at("block_rows");
  choice.request.variant = json.at("variant");
  choice.plan = json.at("plan");
  const Json& ms = json.at("ms");
  choice.time = {ms.at("median"), ms.at("min"), ms.at("max")};
  return choice;
}

std::optional<std::string> text_of_file(const std::string& file) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) {
    if (errno == ENOENT) return std::nullopt;
    refuse(file, std::string("cannot be read: ") + std::strerror(errno), "give its reader the right, or name another");
  }
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream.peek() != std::ifstream::traits_type::eof()) text << stream.rdbuf();
  if (S_ISDIR(facts.st_mode) || !stream.is_open() || stream.bad() || text.bad()) {
    refuse(file, "cannot be read", "name a file that can");
  }
  return text.str();
}

void expect_version(const std::string& file, const char* what, const std::string& found, const std::string& own) {
  if (found == own) return;
  refuse(file, "is of " + std::string(what) + " " + found + ", and this is " + what + " " + own,
         "times of one do not hold for the other; " + std::string(other_file));
}

}  // namespace

TuningRecord TuningRecord::read(const std::string& file) {
  TuningRecord record;
  const std::optional<std::string> text = text_of_file(file);
  if (!text) return record;
  try {
    const Json document = Json::parse(*text);
    expect_version(file, "format", document.at("format").dump(), std::to_string(format));
    expect_version(file, "VocabLoss", document.at("vocabloss").get<std::string>(), version_string);
    for (const Json& entry : document.at("entries")) record.add(key_in(entry.at("key")), choice_in(entry.at("choice")));
  } catch (const nlohmann::json::exception& error) {
    refuse(file, std::string("is malformed: ") + error.what(), other_file);
  } catch (const std::invalid_argument& error) {
    refuse(file, std::string("is malformed: ") + error.what(), other_file);
  }
  return record;
}

void TuningRecord::write(const std::string& file) const {
  Json document = {{"format", format}, {"vocabloss", version_string}, {"entries", Json::array()}};
  for (const auto& [key, choice] : entries_) {
    document["entries"].push_back({{"key", json_of(key)}, {"choice", json_of(choice)}});
  }
  const std::string text = document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::string beside = file + ".tmp" + std::to_string(getpid());  // another run may write the same record
  std::FILE* const out = std::fopen(beside.c_str(), "wb");
  bool good = out != nullptr && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const int cause = errno;
  if (out != nullptr) good = std::fclose(out) == 0 && good;  // some file systems report a full disk only here
  if (good && std::rename(beside.c_str(), file.c_str()) == 0) return;
  const std::string why = std::strerror(good || out != nullptr ? errno : cause);
  if (out != nullptr) unlink(beside.c_str());
  refuse(file, "cannot be written: " + why, "name a file in a folder where it can");
}

std::optional<TunedChoice> TuningRecord::find(const TuningKey& key) const {
  for (const auto& [known, choice] : entries_) {
    if (known == key) return choice;
  }
  return std::nullopt;
}

void TuningRecord::add(const TuningKey& key, const TunedChoice& choice) {
  for (auto& [known, old] : entries_) {
    if (known == key) {
      old = choice;
      return;
    }
  }
  entries_.emplace_back(key, choice);
}

}  // namespace vocabloss
