// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "option_values.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

namespace entropy_sweep {
namespace {

// from_chars rather than strtod: no locale, no leading blanks, and the whole text must be used.
template <class Number>
bool parse_whole(const std::string& text, Number& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc{} && result.ptr == end;
}

std::string range_text(std::int64_t low, std::int64_t high) {
  const bool no_low = low == std::numeric_limits<std::int64_t>::min();
  const bool no_high = high == std::numeric_limits<std::int64_t>::max();
  if (no_low && no_high) return "a whole number (64-bit)";
  if (no_high) return fmt::format("a whole number of at least {}", low);
  return fmt::format("a whole number from {} to {}", low, high);
}

double parse_finite(const std::string& option, const std::string& text, const char* wanted) {
  double value = 0;
  if (!parse_whole(text, value))
    throw OptionError(fmt::format("{}: '{}' is not a number; give {}", option, text, wanted));
  if (!std::isfinite(value)) throw OptionError(fmt::format("{}: '{}' is not finite; give {}", option, text, wanted));
  return value;
}

}  // namespace

std::vector<std::string> split_list(const std::string& option, const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma == std::string::npos ? comma : comma - begin));
    if (parts.back().empty()) {
      throw OptionError(
          fmt::format("{}: '{}' has an empty entry; give values with one comma between them", option, text));
    }
    if (comma == std::string::npos) return parts;
    begin = comma + 1;
  }
}

std::int64_t parse_integer(const std::string& option, const std::string& text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  if (!parse_whole(text, value) || value < low || value > high) {
    throw OptionError(fmt::format("{}: '{}' is not allowed; give {}", option, text, range_text(low, high)));
  }
  return value;
}

std::uint64_t parse_unsigned(const std::string& option, const std::string& text) {
  std::uint64_t value = 0;
  if (!parse_whole(text, value)) {
    throw OptionError(fmt::format("{}: '{}' is not allowed; give a whole number from 0 to {}", option, text,
                                  std::numeric_limits<std::uint64_t>::max()));
  }
  return value;
}

double parse_positive(const std::string& option, const std::string& text) {
  constexpr const char* wanted = "a finite number above 0";
  const double value = parse_finite(option, text, wanted);
  if (!(value > 0)) throw OptionError(fmt::format("{}: '{}' is not positive; give {}", option, text, wanted));
  return value;
}

double parse_fraction(const std::string& option, const std::string& text) {
  constexpr const char* wanted = "a number from 0 to 1";
  const double value = parse_finite(option, text, wanted);
  if (!(value >= 0 && value <= 1)) {
    throw OptionError(fmt::format("{}: '{}' is out of range; give {}", option, text, wanted));
  }
  return value;
}

std::vector<std::int64_t> parse_integers(const std::string& option, const std::string& text, std::int64_t low,
                                         std::int64_t high) {
  std::vector<std::int64_t> values;
  for (const std::string& part : split_list(option, text)) {
    const std::int64_t value = parse_integer(option, part, low, high);
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  return values;
}

void require_writable(const std::string& option, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    throw OptionError(fmt::format("{}: '{}' is a folder; give a file name", option, file));
  }
  fs::path folder = fs::path(file).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, ignored)) {
    throw OptionError(
        fmt::format("{}: the folder of '{}' does not exist; create '{}' first", option, file, folder.string()));
  }
  // A device or a pipe is written directly, so only its own rights count; a file is replaced, so the folder's do.
  const bool special = fs::exists(file, ignored) && !fs::is_regular_file(file, ignored);
  const std::string target = special ? file : folder.string();
  if (access(target.c_str(), W_OK) != 0) {
    throw OptionError(fmt::format("{}: no right to write '{}'; choose another place", option, file));
  }
}

}  // namespace entropy_sweep
