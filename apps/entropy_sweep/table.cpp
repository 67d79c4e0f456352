// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

namespace entropy_sweep {
namespace {

constexpr std::size_t page_width = 120;

/// When a column is shown: always; only when its cells differ (else its value goes above the table); only when a cell
/// holds something; or that, and only while the table is narrow enough.
enum class Shown { always, varying, filled, if_room };

struct Column {
  std::string title;
  Shown shown;
  bool left;  // alignment
  std::function<std::string(const Result&)> cell;
  std::vector<std::string> cells{};

  std::size_t width() const {
    std::size_t widest = title.size();
    for (const std::string& text : cells) widest = std::max(widest, text.size());
    return widest;
  }
  bool constant() const { return std::adjacent_find(cells.begin(), cells.end(), std::not_equal_to<>()) == cells.end(); }
  bool empty() const {
    return std::all_of(cells.begin(), cells.end(), [](const std::string& text) { return text.empty(); });
  }
};

/// Four significant digits without an exponent for the times and rates met in practice.
std::string short_number(std::optional<double> value) {
  if (!value) return {};
  const double size = std::fabs(*value);
  if (!std::isfinite(*value) || size >= 1e6 || (size > 0 && size < 1e-4)) return fmt::format("{:.3g}", *value);
  const int digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
  return fmt::format("{:.{}f}", *value, digits);
}

std::string error_number(std::optional<double> value) { return value ? fmt::format("{:.1e}", *value) : ""; }

std::string outcome_word(const Result& result) {
  switch (outcome_of(result)) {
    case Outcome::ok:
      return "ok";
    case Outcome::refused:
      return "refused";
    case Outcome::oom:
      return "oom";
    case Outcome::failed:
      break;
  }
  return "FAILED";
}

std::vector<Column> all_columns() {
  const auto ms = [](double Milliseconds::*field) {
    return
        [field](const Result& r) { return short_number(r.ms ? std::optional<double>((*r.ms).*field) : std::nullopt); };
  };
  return {
      {"loss", Shown::always, true, [](const Result& r) { return std::string(to_name(r.point.loss)); }},
      {"path", Shown::always, true, [](const Result& r) { return std::string(to_name(r.point.path)); }},
      {"cap", Shown::filled, false,
       [](const Result& r) {
         const auto cap = r.block_cap ? r.block_cap : r.point.block_cap;
         return cap ? fmt::format("{}", *cap) : std::string();
       }},
      {"exchange", Shown::varying, true,
       [](const Result& r) { return r.point.exchange ? std::string(to_name(*r.point.exchange)) : std::string(); }},
      {"comm", Shown::varying, true, [](const Result& r) { return std::string(to_name(r.point.comm)); }},
      {"ranks", Shown::varying, false, [](const Result& r) { return fmt::format("{}", r.ranks); }},
      {"pass", Shown::varying, true, [](const Result& r) { return std::string(to_name(r.point.pass)); }},
      {"rows", Shown::varying, false, [](const Result& r) { return fmt::format("{}", r.point.rows); }},
      {"vocab", Shown::varying, false, [](const Result& r) { return fmt::format("{}", r.point.vocab); }},
      {"type", Shown::varying, true, [](const Result& r) { return std::string(to_name(r.point.type)); }},
      {"in place", Shown::varying, true, [](const Result& r) { return std::string(r.point.in_place ? "yes" : "no"); }},
      {"median ms", Shown::always, false, ms(&Milliseconds::median)},
      {"min ms", Shown::if_room, false, ms(&Milliseconds::min)},
      {"max ms", Shown::if_room, false, ms(&Milliseconds::max)},
      {"GB/s", Shown::always, false, [](const Result& r) { return short_number(r.gb_per_s()); }},
      {"share", Shown::filled, false,
       [](const Result& r) { return r.share_of_stream ? fmt::format("{:.3f}", *r.share_of_stream) : std::string(); }},
      {"loss err", Shown::filled, false, [](const Result& r) { return error_number(r.loss_error); }},
      {"grad err", Shown::filled, false, [](const Result& r) { return error_number(r.grad_error); }},
      {"status", Shown::always, true, outcome_word},
  };
}

std::size_t table_width(const std::vector<Column>& columns, std::size_t gap) {
  std::size_t width = columns.empty() ? 0 : gap * (columns.size() - 1);
  for (const Column& column : columns) width += column.width();
  return width;
}

/// Drops the columns that say nothing; returns "name value, ..." of those that say the same in every line.
std::string keep_telling(std::vector<Column>& columns) {
  std::string shared;
  std::erase_if(columns, [&shared](const Column& column) {
    if (column.shown == Shown::always) return false;
    if (column.empty()) return true;
    if (column.shown != Shown::varying || !column.constant()) return false;
    shared += (shared.empty() ? "" : ", ") + column.title + " " + column.cells.front();
    return true;
  });
  return shared;
}

void append_line(std::string& text, const std::vector<Column>& columns, std::size_t gap,
                 const std::function<std::string_view(const Column&)>& content) {
  std::string line;
  for (const Column& column : columns) {
    if (!line.empty()) line.append(gap, ' ');
    line += column.left ? fmt::format("{:<{}}", content(column), column.width())
                        : fmt::format("{:>{}}", content(column), column.width());
  }
  line.erase(line.find_last_not_of(' ') + 1);
  text += line + "\n";
}

/// "label: text", broken at blanks so that no line is wider than the page where a blank allows it.
void append_wrapped(std::string& text, const std::string& label, const std::string& content) {
  constexpr std::size_t indent = 4;
  std::string line = label;
  std::size_t begin = 0;
  while (begin < content.size()) {
    const std::size_t end = std::min(content.find_first_of(" \n", begin), content.size());
    const std::string word = content.substr(begin, end - begin);
    if (line.size() + 1 + word.size() > page_width && line.size() > indent) {
      text += line + "\n";
      line.assign(indent, ' ');
      line += word;
    } else {
      line += " " + word;
    }
    begin = end + 1;
  }
  text += line + "\n";
}

}  // namespace

std::string to_table(const Context& context, const std::vector<Result>& results) {
  std::string text;
  append_wrapped(text, context.card,
                 fmt::format("| {} | version {}{}{}", context.date, context.version,
                             context.git.empty() ? "" : " git " + context.git,
                             context.driver.empty() ? "" : " | driver " + context.driver));
  if (results.empty()) return text + "no results\n";

  std::vector<Column> columns = all_columns();
  for (Column& column : columns) {
    for (const Result& result : results) column.cells.push_back(column.cell(result));
  }
  const std::string shared = keep_telling(columns);
  if (!shared.empty()) append_wrapped(text, "all cases:", shared);
  std::string how = context.graph ? "launches of a captured CUDA graph" : "";
  if (context.back_to_back > 1) {
    how += fmt::format("{}{} in a row, their mean; the cache flushed before the first", how.empty() ? "calls, " : ", ",
                       context.back_to_back);
  }
  if (!how.empty()) append_wrapped(text, "timed:", how);
  if (!results.front().input.empty()) append_wrapped(text, "input:", results.front().input);
  text += "\n";

  std::size_t gap = 2;
  if (table_width(columns, gap) > page_width) {
    std::erase_if(columns, [](const Column& column) { return column.shown == Shown::if_room; });
  }
  if (table_width(columns, gap) > page_width) gap = 1;

  append_line(text, columns, gap, [](const Column& column) -> std::string_view { return column.title; });
  text.append(std::min(table_width(columns, gap), page_width), '-');
  text += "\n";
  for (std::size_t i = 0; i < results.size(); ++i) {
    append_line(text, columns, gap, [i](const Column& column) -> std::string_view { return column.cells[i]; });
  }
  text += "\nGB/s: each stream of the problem once (decimal) over the median time";
  const bool has_share = std::any_of(results.begin(), results.end(), [](const Result& r) { return r.share_of_stream; });
  text += has_share ? "; share: time of a plain stream kernel over ours.\n" : ".\n";

  std::size_t counts[4] = {};
  for (const Result& result : results) {
    ++counts[static_cast<std::size_t>(outcome_of(result))];
    if (outcome_of(result) != Outcome::ok) append_wrapped(text, describe(result.point) + ":", result.status);
  }
  text += fmt::format("{} case{}: {} ok, {} failed, {} refused, {} out of memory\n", results.size(),
                      results.size() == 1 ? "" : "s", counts[0], counts[1], counts[2], counts[3]);
  return text;
}

}  // namespace entropy_sweep
