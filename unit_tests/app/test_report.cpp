// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Results as JSON, CSV and table, exit codes, the progress line and the facts of the machine.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "atomic_file.hpp"
#include "context.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "table.hpp"

namespace {

using namespace entropy_sweep;

Context some_context() {
  return {.card = "A card",
          .date = "2026-11-28T00:00:00Z",
          .version = "1.0",
          .git = "abc",
          .driver = "",
          .execution = "Serial"};
}

Result some_result() {
  Result result;
  result.point = Case{.loss = Loss::jsd, .path = Path::team, .rows = 4096, .vocab = 32768, .block_cap = 1024};
  result.columns = 32768;
  result.plan = "team, cap 1024";
  result.ms = Milliseconds{2.0, 1.5, 3.0};
  result.share_of_stream = 0.5;
  result.peak_extra_bytes = 77;
  result.loss_error = 1e-7;
  result.grad_error = 2e-4;
  return result;
}

Result with_status(const std::string& status) {
  Result result = some_result();
  result.status = status;
  return result;
}

TEST(Report, JsonHoldsEveryFieldOfTheContract) {
  const auto document = nlohmann::ordered_json::parse(to_json(some_context(), {some_result()}));
  for (const char* field : {"card", "date", "git", "driver", "back_to_back", "graph"})
    EXPECT_TRUE(document["context"].contains(field)) << field;
  EXPECT_TRUE(document["context"]["driver"].is_null());
  const auto& record = document["results"][0];
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"loss",       "path",       "exchange",        "comm",
                                             "pass",       "rows",       "vocab",           "columns",
                                             "ranks",      "type",       "block_cap",       "plan",
                                             "in_place",   "accumulate", "input",           "ms",
                                             "bytes",      "gb_per_s",   "share_of_stream", "peak_extra_bytes",
                                             "loss_error", "grad_error", "status"}));
  EXPECT_EQ(record["loss"], "jsd");
  EXPECT_EQ(record["path"], "team");
  EXPECT_TRUE(record["exchange"].is_null());
  EXPECT_EQ(record["block_cap"], 1024);
  EXPECT_EQ(record["ms"]["median"], 2.0);
  EXPECT_EQ(record["ms"]["min"], 1.5);
  EXPECT_EQ(record["ms"]["max"], 3.0);
  EXPECT_EQ(record["bytes"], 805306368);
  EXPECT_NEAR(record["gb_per_s"].get<double>(), 805306368 / 2e-3 / 1e9, 1e-6);
  EXPECT_EQ(record["peak_extra_bytes"], 77);
  EXPECT_EQ(record["status"], "ok");
  EXPECT_TRUE(record["input"].is_null());
}

TEST(Report, NanAndInfinityBecomeNull) {
  Result result = some_result();
  result.loss_error = std::numeric_limits<double>::quiet_NaN();
  result.grad_error = std::numeric_limits<double>::infinity();
  result.share_of_stream = -std::numeric_limits<double>::infinity();
  result.ms = std::nullopt;
  const auto record = nlohmann::json::parse(to_json(some_context(), {result}))["results"][0];
  for (const char* field : {"loss_error", "grad_error", "share_of_stream", "gb_per_s"}) {
    EXPECT_TRUE(record[field].is_null()) << field;
  }
  EXPECT_TRUE(record["ms"]["median"].is_null());
}

TEST(Report, BytesThatAreNoTextDoNotCostTheRecord) {
  EXPECT_NO_THROW({
    const auto document = nlohmann::json::parse(to_json(some_context(), {with_status("failed: \xff\"\n")}));
    EXPECT_EQ(document["results"].size(), 1u);
  });
  EXPECT_NE(to_csv(some_context(), {with_status("failed: \xff")}).find("failed"), std::string::npos);
}

TEST(Report, NoResultsIsAnEmptyList) {
  const auto document = nlohmann::json::parse(to_json(some_context(), {}));
  EXPECT_TRUE(document["results"].is_array());
  EXPECT_TRUE(document["results"].empty());
  const std::string csv = to_csv(some_context(), {});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1);
}

TEST(Report, CsvQuotesAndAgreesWithTheHeader) {
  const std::string csv = to_csv(some_context(), {with_status("failed: \"x\", y")});
  EXPECT_EQ(csv.find("loss,path,exchange,comm,pass,"), 0u);
  EXPECT_NE(csv.find(",ms_median,ms_min,ms_max,"), std::string::npos);
  EXPECT_NE(csv.find("\"failed: \"\"x\"\", y\""), std::string::npos);
  EXPECT_NE(csv.find("\"team, cap 1024\""), std::string::npos);
  std::istringstream lines(csv);
  std::string header;
  std::string line;
  std::getline(lines, header);
  std::getline(lines, line);
  int cells = 1;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) ++cells;
  }
  EXPECT_EQ(cells, 1 + std::count(header.begin(), header.end(), ','));
}

TEST(Report, ExitCodesFollowTheContract) {
  EXPECT_EQ(exit_code_of({}), 0);
  EXPECT_EQ(exit_code_of({with_status("ok")}), 0);
  EXPECT_EQ(exit_code_of({with_status("ok"), with_status("refused: no device")}), 3);
  EXPECT_EQ(exit_code_of({with_status("oom: 5 bytes"), with_status("ok")}), 3);
  EXPECT_EQ(exit_code_of({with_status("oom: 5 bytes"), with_status("failed: grad_error")}), 1);
  EXPECT_EQ(exit_code_of({with_status("")}), 1);
  EXPECT_EQ(exit_code_of({with_status("okay")}), 1);
}

TEST(Report, FilesAreWrittenWhole) {
  const auto path = (std::filesystem::path(testing::TempDir()) / "report.json").string();
  write_json(path, some_context(), {some_result()});
  std::ifstream stream(path);
  EXPECT_EQ(nlohmann::json::parse(stream)["results"].size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  EXPECT_THROW(write_csv("/no such folder/x.csv", some_context(), {}), FileError);
}

TEST(Table, FitsThePageAndSaysWhatIsShared) {
  std::vector<Result> results{some_result(),
                              with_status("refused: " + std::string(40, 'w') +
                                          " and many more words, "
                                          "so many that the line has to be broken somewhere"),
                              with_status("failed: loss_error 1 above 1e-05")};
  results[1].point.loss = Loss::soft_cross_entropy;
  results[1].point.comm = Comm::mpi;
  results[1].point.exchange = Exchange::two_allreduce;
  results[1].point.rows = 123456;
  results[2].point.vocab = 131072;
  results[2].point.type = ValueType::fp32;
  results[2].point.path = Path::reference;
  const std::string table = to_table(some_context(), results);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  for (const char* word : {"A card", "2026-11-28", "pass forward_backward", "median ms", "GB/s", "FAILED", "refused",
                           "two_allreduce", "loss_error 1 above 1e-05", "3 cases: 1 ok, 1 failed, 1 refused"}) {
    EXPECT_NE(table.find(word), std::string::npos) << word << "\n" << table;
  }
  EXPECT_NE(to_table(some_context(), {}).find("no results"), std::string::npos);
}

TEST(Progress, NothingUnlessATerminalWatches) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    Progress progress(file, 10, true);
    EXPECT_FALSE(progress.active());
    progress.start("something");
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
  EXPECT_EQ(progress_line(3, 24, "jsd team"), "[ 3/24] jsd team");
  EXPECT_EQ(progress_line(3, 24, std::string(500, 'x')).size(), 79u);
}

TEST(ContextFacts, CardAndDate) {
  std::istringstream x86("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n");
  EXPECT_EQ(processor_name(x86), "Some CPU @ 2 GHz");
  std::istringstream arm("processor\t: 0\nBogoMIPS\t: 50.00\n");
  EXPECT_EQ(processor_name(arm), "unknown processor");
  EXPECT_NE(host_card(3).find(", 3 threads"), std::string::npos);
  EXPECT_TRUE(std::regex_match(date_now(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")));
}

}  // namespace
