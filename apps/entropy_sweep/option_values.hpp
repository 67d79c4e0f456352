// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_OPTION_VALUES_HPP
#define ENTROPY_SWEEP_OPTION_VALUES_HPP

/// \file
/// From the text of one option to its checked value. Every failure is an OptionError that names option, value and
/// remedy.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "names.hpp"

namespace entropy_sweep {

class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parts between commas; an empty part (",a", "a,,b", "") is an error.
std::vector<std::string> split_list(const std::string& option, const std::string& text);

/// A whole number in [low, high].
std::int64_t parse_integer(const std::string& option, const std::string& text, std::int64_t low, std::int64_t high);
std::uint64_t parse_unsigned(const std::string& option, const std::string& text);

/// A finite number above zero; NaN and infinity are refused by name.
double parse_positive(const std::string& option, const std::string& text);

/// A number in [0, 1].
double parse_fraction(const std::string& option, const std::string& text);

/// A comma list of whole numbers in [low, high]; a value given twice counts once.
std::vector<std::int64_t> parse_integers(const std::string& option, const std::string& text, std::int64_t low,
                                         std::int64_t high);

/// Refuses an output that could not be written at the end of a long run: missing folder, a folder itself, no right.
void require_writable(const std::string& option, const std::string& file);

template <class Enum>
Enum parse_name(const std::string& option, const std::string& text) {
  if (const auto value = from_name<Enum>(text)) return *value;
  throw OptionError(option + ": unknown value '" + text + "'; allowed: " + all_names<Enum>());
}

/// A comma list of names; a name given twice counts once, since a case is a point of the sweep.
template <class Enum>
std::vector<Enum> parse_names(const std::string& option, const std::string& text) {
  std::vector<Enum> values;
  for (const std::string& part : split_list(option, text)) {
    const Enum value = parse_name<Enum>(option, part);
    bool seen = false;
    for (const Enum earlier : values) seen = seen || earlier == value;
    if (!seen) values.push_back(value);
  }
  return values;
}

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_OPTION_VALUES_HPP
