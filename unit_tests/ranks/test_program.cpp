// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The program over ranks: values of the whole vocabulary, one table, one exit code, and an end whichever rank fails.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "safetensors.hpp"
#include "support/command.hpp"

namespace {

namespace fs = std::filesystem;
using entropy_sweep::SafetensorsFile;
using test::CommandOutcome;

class OverRanks : public testing::Test {
 protected:
  void SetUp() override {
    const auto variable = [](const char* name) { return std::getenv(name) ? std::string(std::getenv(name)) : ""; };
    program_ = variable("VOCABLOSS_ENTROPY_SWEEP");
    launcher_ = variable("VOCABLOSS_MPIEXEC");
    const std::string sample = variable("VOCABLOSS_SAMPLE_DIR");
    if (program_.empty() || launcher_.empty() || sample.empty()) {
      GTEST_SKIP() << "VOCABLOSS_ENTROPY_SWEEP, VOCABLOSS_MPIEXEC or VOCABLOSS_SAMPLE_DIR is not set";
    }
    student_ = (fs::path(sample) / "student-32k-16.safetensors").string();
    teacher_ = (fs::path(sample) / "teacher-32k-16.safetensors").string();
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / ("entropy_sweep_ranks_" + std::string(info->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string ranks(int count, const std::string& arguments) const {
    return std::to_string(count) + " '" + program_ + "' --comm mpi " + arguments;
  }
  CommandOutcome run(int count, const std::string& arguments) const {
    return test::run_command(launcher_ + " " + ranks(count, arguments));
  }
  /// A rank with one command line, then one with another.
  CommandOutcome run_differently(const std::string& first, const std::string& second) const {
    return test::run_command(launcher_ + " " + ranks(1, first) + " : -n " + ranks(1, second));
  }
  nlohmann::json results(const std::string& name) const {
    std::ifstream stream(file(name));
    return nlohmann::json::parse(stream)["results"];
  }

  std::string program_, launcher_, student_, teacher_;
  fs::path folder_;
};

TEST_F(OverRanks, EveryExchangePassesTheCheckOfTheWholeVocabulary) {
  // Below a MiB nothing is flushed from the cache before a call: emptying a server's takes longer than all these cases.
  const std::string sizes[] = {
      "--type bf16,fp64 --rows 5 --vocab 3,257 --loss reverse_kl,cross_entropy,jsd,log_prob_entropy",
      "--type bf16 --rows 2 --vocab 50257 --loss reverse_kl,cross_entropy"};
  const unsigned cases[] = {2 * 2 * 4, 2};
  for (int count = 1; count <= 4; ++count) {
    const bool alone = count == 1;  // nothing to gather
    for (int k = 0; k < 2; ++k) {
      const CommandOutcome outcome =
          run(count, "--exchange two_allreduce,allgather --path team,naive" + std::string(alone ? " " : ",gather ") +
                         sizes[k] + " --repeat 1 --check --json " + file("x.json"));
      ASSERT_EQ(outcome.code, 0) << outcome.text;
      EXPECT_EQ(outcome.count("GB/s: each stream"), 1) << "one table is wanted\n" << outcome.text;
      EXPECT_EQ(outcome.count("path naive has no exchange allgather"), 1) << outcome.text;
      const auto all = results("x.json");
      EXPECT_EQ(all.size(), cases[k] * (alone ? 3 : 4));
      for (const auto& one : all) {
        EXPECT_EQ(one["status"], "ok");
        EXPECT_EQ(one["ranks"], count);
        EXPECT_EQ(one["columns"], (one["vocab"].get<int>() + count - 1) / count);
        EXPECT_EQ(one["exchange"].is_null(), one["path"] == "gather") << one;
        EXPECT_TRUE(one["loss_error"].is_number() && one["grad_error"].is_number() && one["ms"]["median"].is_number());
      }
    }
  }
}

/// A vocabulary of the size that ranks are for, over a whole node of them.
TEST_F(OverRanks, EightRanksShareALongVocabulary) {
  const std::string rest = " --rows 3 --vocab 131072 --loss reverse_kl --repeat 1 --json " + file("x.json");
  const CommandOutcome outcome =
      run(8, "--exchange allgather,two_allreduce --path team,naive,gather --check --quiet" + rest);
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  const auto all = results("x.json");
  EXPECT_EQ(all.size(), 4u) << all;  // naive has one exchange, gather none
  for (const auto& one : all) {
    EXPECT_EQ(one["status"], "ok") << one;
    EXPECT_EQ(one["ranks"], 8);
    EXPECT_EQ(one["columns"], 16384);
  }
}

/// Gathering the logits asks for (8 + 1) shards of two streams, and says so; the case beside it runs.
TEST_F(OverRanks, GatherBeyondTheMemoryLimitIsOutOfMemory) {
  const CommandOutcome outcome =
      run(8, "--path gather,team --memory-limit 1000000 --rows 4 --vocab 131072 --repeat 1 --json " + file("x.json"));
  EXPECT_EQ(outcome.code, 3) << outcome.text;
  const auto all = results("x.json");
  ASSERT_EQ(all.size(), 2u);
  const std::string status = all[0]["status"];
  EXPECT_EQ(status.rfind("oom: ", 0), 0u) << status;
  long long needed = 0, allowed = 0;
  const auto place = status.find("path gather needs ");
  ASSERT_NE(place, std::string::npos) << status;
  EXPECT_EQ(std::sscanf(status.c_str() + place,
                        "path gather needs %lld bytes a rank for the logits of all ranks, and %lld are allowed",
                        &needed, &allowed),
            2)
      << status;
  EXPECT_GE(needed, 2ll * 9 * 4 * 16384 * 2);
  EXPECT_EQ(allowed, 1000000);
  EXPECT_TRUE(all[0]["ms"]["median"].is_null()) << all[0];
  EXPECT_EQ(all[1]["status"], "ok") << all[1];
}

TEST_F(OverRanks, InPlaceBackwardAndForwardPassTheCheck) {
  for (const char* pass : {"--pass forward", "--pass backward", "--in-place", "--back-to-back 3"}) {
    const CommandOutcome outcome = run(3, std::string(pass) +
                                              " --exchange two_allreduce,allgather --path team,naive,gather --rows 5 "
                                              "--vocab 101 --repeat 2 --check --quiet");
    EXPECT_EQ(outcome.code, 0) << pass << "\n" << outcome.text;
  }
}

TEST_F(OverRanks, RealLogitsAreCutAsSyntheticOnes) {
  const std::string input = "--input '" + student_ + "','" + teacher_ + "' --loss reverse_kl --path team ";
  for (const char* type : {"", "--type fp32 "}) {
    const CommandOutcome outcome = run(2, input + type + "--repeat 1 --check --json " + file("x.json"));
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    const auto all = results("x.json");
    ASSERT_EQ(all.size(), 1u);
    for (const auto& one : all) EXPECT_LE(one["loss_error"].get<double>(), 1e-5);
  }
}

TEST_F(OverRanks, ADumpIsThatOfOneRank) {
  const std::string arguments =
      "--loss reverse_kl --path team --type fp32 --rows 5 --vocab 1001 --repeat 1 --quiet --dump-grad --dump ";
  ASSERT_EQ(run(1, arguments + file("1.st")).code, 0);
  ASSERT_EQ(run(4, arguments + file("4.st")).code, 0);
  const SafetensorsFile one(file("1.st")), four(file("4.st"));
  for (const char* name : {"loss_reverse_kl", "grad_reverse_kl"}) {
    ASSERT_EQ(one.tensor(name).shape, four.tensor(name).shape);
    const std::vector<double> expected = to_doubles(one.tensor(name)), actual = to_doubles(four.tensor(name));
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::fabs(value));
    ASSERT_GT(largest, 0);
    for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(actual[k], expected[k], 1e-6 * largest) << name << k;
  }
}

TEST_F(OverRanks, ABadFileOnOneRankEndsAllAndIsNamed) {
  std::ofstream(file("bad.st")) << "no tensors here, only words";
  const std::string rest = " --loss entropy --repeat 1 --json " + file("x.json");
  const CommandOutcome outcome =
      run_differently("--input '" + student_ + "'" + rest, "--input '" + file("bad.st") + "'" + rest);
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  EXPECT_EQ(outcome.count("rank 1 of 2: entropy_sweep: error"), 1) << outcome.text;
  EXPECT_EQ(outcome.count("rank 0 of 2"), 0) << outcome.text;
  EXPECT_FALSE(fs::exists(file("x.json")));
}

TEST_F(OverRanks, RanksWithOtherOptionsEnd) {
  const CommandOutcome outcome = run_differently("--rows 2 --vocab 8 --repeat 1", "--rows 3 --vocab 8 --repeat 1");
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  EXPECT_EQ(outcome.count("rank 1 of 2: entropy_sweep: error"), 1) << outcome.text;
  EXPECT_EQ(run_differently("--rows 2 --vocab 8 --repeat 1", "--rows -1 --vocab 8 --repeat 1").code, 2);
}

TEST_F(OverRanks, WhatAllSayIsSaidOnce) {
  const CommandOutcome option = run(3, "--path fast");
  EXPECT_EQ(option.code, 2);
  EXPECT_EQ(option.count("unknown value 'fast'"), 1) << option.text;
  const CommandOutcome help = run(2, "--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.count("Examples:"), 1) << help.text;
}

TEST_F(OverRanks, RefusedAndOutOfMemoryAreThree) {
  // Only a GPU has these, and no test of this folder needs one: cluster and in_kernel over MPI on CPUs.
  const CommandOutcome refused =
      run(2, "--path auto --exchange in_kernel --rows 2 --vocab 8 --repeat 1 --json " + file("refused.json"));
  EXPECT_EQ(refused.code, 3) << refused.text;
  EXPECT_EQ(results("refused.json")[0]["status"].get<std::string>().substr(0, 9), "refused: ");
  const CommandOutcome oom =
      run(2, "--rows 1000000000 --vocab 100000 --repeat 1 --path team,gather --json " + file("oom.json"));
  EXPECT_EQ(oom.code, 3) << oom.text;
  for (const auto& one : results("oom.json")) EXPECT_EQ(one["status"].get<std::string>().substr(0, 5), "oom: ");
}

TEST_F(OverRanks, ARankShortOfMemoryAloneEndsTheCaseAndNotTheRun) {
  const std::string arguments = "--rows 1000,2 --vocab 65536 --type fp32 --repeat 1 --json " + file("x.json");
  const CommandOutcome outcome = test::run_command(launcher_ + " " + ranks(1, arguments) +
                                                   " : -n 1 bash -c 'ulimit -v 600000; exec \"$0\" \"$@\"' '" +
                                                   program_ + "' --comm mpi " + arguments);
  EXPECT_EQ(outcome.code, 3) << outcome.text;
  const auto all = results("x.json");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["status"].get<std::string>().substr(0, 12), "oom: rank 1:") << all[0];
  EXPECT_EQ(all[1]["status"], "ok");
}

TEST_F(OverRanks, AFileThatCannotBeWrittenEndsAllRanks) {
  const CommandOutcome outcome = run(2, "--rows 2 --vocab 8 --repeat 1 --json /dev/full");
  EXPECT_EQ(outcome.code, 1) << outcome.text;
  EXPECT_NE(outcome.text.find("/dev/full"), std::string::npos) << outcome.text;
}

}  // namespace
