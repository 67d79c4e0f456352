// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The program as its user meets it: exit codes, files, the sample of real logits.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "safetensors.hpp"
#include "support/command.hpp"

namespace {

using namespace entropy_sweep;
namespace fs = std::filesystem;
using Outcome = test::CommandOutcome;

class Program : public testing::Test {
 protected:
  void SetUp() override {
    const char* program = std::getenv("VOCABLOSS_ENTROPY_SWEEP");
    const char* sample = std::getenv("VOCABLOSS_SAMPLE_DIR");
    if (program == nullptr || sample == nullptr)
      GTEST_SKIP() << "VOCABLOSS_ENTROPY_SWEEP or VOCABLOSS_SAMPLE_DIR is not set";
    program_ = program;
    student_ = (fs::path(sample) / "student-32k-16.safetensors").string();
    teacher_ = (fs::path(sample) / "teacher-32k-16.safetensors").string();
    expected_ = (fs::path(sample) / "expected-32k-16.safetensors").string();
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / ("entropy_sweep_" + std::string(info->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  Outcome run(const std::string& arguments) const { return test::run_command("'" + program_ + "' " + arguments); }

  nlohmann::json json_of(const std::string& name) const {
    std::ifstream stream(file(name));
    return nlohmann::json::parse(stream);
  }

  std::string program_, student_, teacher_, expected_;
  fs::path folder_;
};

TEST_F(Program, HelpVersionAndBadOptions) {
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_EQ(run("--version").code, 0);
  EXPECT_EQ(run("--loss nonsense --json " + file("x.json")).code, 2);
  EXPECT_EQ(run("--temperature nan").code, 2);
  EXPECT_FALSE(fs::exists(file("x.json")));
}

TEST_F(Program, BadInputIsTwoAndWritesNothing) {
  const std::string outputs = " --json " + file("x.json") + " --csv " + file("x.csv") + " --dump " + file("x.st");
  std::ifstream stream(student_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), {});
  std::ofstream(file("short.st"), std::ios::binary) << whole.substr(0, whole.size() / 2);
  std::ofstream(file("text.st")) << "no tensors here, only words";
  for (const std::string& input :
       {file("absent.st"), file("short.st"), file("text.st"), teacher_, student_ + "," + student_}) {
    const Outcome outcome = run("--loss cross_entropy --input '" + input + "'" + outputs);
    EXPECT_EQ(outcome.code, 2) << input << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find("error"), std::string::npos) << outcome.text;
  }
  const Outcome no_teacher = run("--loss jsd --input '" + student_ + "'" + outputs);
  EXPECT_EQ(no_teacher.code, 2);
  EXPECT_NE(no_teacher.text.find("'teacher'"), std::string::npos) << no_teacher.text;
  for (const char* name : {"x.json", "x.csv", "x.st"}) EXPECT_FALSE(fs::exists(file(name))) << name;
}

TEST_F(Program, RefusedAndOutOfMemoryAreThree) {
  EXPECT_EQ(run("--rows 2 --vocab 8 --comm nccl").code, 3);
  const Outcome oom = run("--rows 1000000000 --vocab 100000 --repeat 1 --json " + file("oom.json"));
  EXPECT_EQ(oom.code, 3) << oom.text;
  EXPECT_EQ(json_of("oom.json")["results"][0]["status"].get<std::string>().substr(0, 5), "oom: ");
  // Left out is neither refused nor failed.
  const Outcome nothing = run("--path gather --json " + file("none.json"));
  EXPECT_EQ(nothing.code, 0) << nothing.text;
  EXPECT_NE(nothing.text.find("gather"), std::string::npos);
  EXPECT_TRUE(json_of("none.json")["results"].empty());
}

TEST_F(Program, ASweepIsCheckedAndWritten) {
  const Outcome outcome = run(
      "--loss reverse_kl,cross_entropy,entropy --rows 0,5 --vocab 1,33,1000 --type bf16,fp32,fp64 --path team,naive "
      "--block-cap 64,512 --repeat 2 --check --json " +
      file("x.json") + " --csv " + file("x.csv"));
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  const auto results = json_of("x.json")["results"];
  EXPECT_EQ(results.size(), 3u * 2 * 3 * 3 * (2 + 1));
  for (const auto& result : results) {
    EXPECT_EQ(result["status"], "ok");
    EXPECT_TRUE(result["loss_error"].is_number());
    EXPECT_EQ(result["block_cap"].is_null(), result["path"] == "naive") << result;
    EXPECT_TRUE(result["exchange"].is_null());
    EXPECT_EQ(result["columns"], result["vocab"]);
    if (result["rows"] != 0) {
      EXPECT_GT(result["ms"]["median"], 0);
    }
  }
}

TEST_F(Program, PeakedDataPassTheCheckAndAreNamed) {
  const Outcome outcome =
      run("--data peaked --loss reverse_kl,jsd,cross_entropy --rows 40 --vocab 3,5000 --type bf16,fp32 "
          "--check --repeat 1 --json " +
          file("x.json"));
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  const auto peaked = json_of("x.json");
  for (const auto& result : peaked["results"]) EXPECT_EQ(result["input"], "synthetic:peaked");
  EXPECT_EQ(run("--rows 2 --vocab 9 --repeat 1 --json " + file("y.json")).code, 0);
  EXPECT_TRUE(json_of("y.json")["results"][0]["input"].is_null());
}

TEST_F(Program, TunedChoicesAreMeasuredOnceAndKept) {
  const std::string sweep =
      "--loss reverse_kl,z_loss --rows 3 --vocab 4000 --type fp32 --path auto,naive --repeat 1 --check "
      "--tune " +
      file("tuning.json") + " --json " + file("x.json");
  const Outcome first = run(sweep);
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_NE(first.text.find("tuned reverse_kl auto"), std::string::npos) << first.text;
  EXPECT_EQ(json_of("tuning.json")["entries"].size(), 2u);
  const auto plan = json_of("tuning.json")["entries"][0]["choice"]["plan"];
  EXPECT_EQ(json_of("x.json")["results"][0]["plan"], plan);
  std::ifstream before(file("tuning.json"));
  const std::string kept((std::istreambuf_iterator<char>(before)), {});
  const Outcome second = run(sweep);
  EXPECT_EQ(second.code, 0) << second.text;
  EXPECT_EQ(second.text.find("tuned "), std::string::npos) << second.text;
  EXPECT_EQ(json_of("x.json")["results"][0]["plan"], plan);
  std::ifstream after(file("tuning.json"));
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(after)), {}), kept);

  std::ofstream(file("bad.json")) << "{}";
  const Outcome bad = run("--tune " + file("bad.json") + " --json " + file("none.json"));
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.text.find("bad.json' is malformed"), std::string::npos) << bad.text;
  EXPECT_FALSE(fs::exists(file("none.json")));
}

TEST_F(Program, PassesAndInPlaceAgreeWithTheReference) {
  for (const std::string pass : {"forward", "backward", "forward_backward"}) {
    const Outcome outcome =
        run("--loss jsd,log_prob_entropy,soft_cross_entropy --rows 7 --vocab 500 --in-place --check "
            "--repeat 2 --path auto,naive,reference --temperature 2 --jsd-beta 0.3 --type fp16,fp32 --pass " +
            pass);
    EXPECT_EQ(outcome.code, 0) << pass << "\n" << outcome.text;
  }
}

TEST_F(Program, TheReferenceReproducesTheSample) {
  const Outcome outcome =
      run("--input '" + student_ + "," + teacher_ +
          "' --loss cross_entropy,soft_cross_entropy,forward_kl,reverse_kl,jsd,z_loss,entropy,log_prob "
          "--path reference --quiet --dump-grad --dump " +
          file("x.st"));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const SafetensorsFile ours(file("x.st"));
  const SafetensorsFile expected(expected_);
  const auto mask = to_integers(SafetensorsFile(student_).tensor("mask"));
  const std::vector<std::pair<std::string, std::string>> names{{"cross_entropy", "cross_entropy_label"},
                                                               {"soft_cross_entropy", "cross_entropy_soft"},
                                                               {"forward_kl", "forward_kl"},
                                                               {"reverse_kl", "reverse_kl"},
                                                               {"jsd", "jsd_0.5"},
                                                               {"z_loss", "z"},
                                                               {"entropy", "entropy_student"},
                                                               {"log_prob", "logprob_label"}};
  for (const auto& [ours_name, name] : names) {
    const auto losses = to_doubles(ours.tensor("loss_" + ours_name));
    const auto wanted = to_doubles(expected.tensor(name));
    for (std::size_t row = 0; row < 16; ++row) {
      const double value = mask[row] != 0 ? wanted[row] : 0;
      EXPECT_LE(std::fabs(losses[row] - value), 1e-10 * std::max(1.0, std::fabs(value))) << name << " row " << row;
    }
    if (name == "logprob_label") continue;
    // Rows 0, 7 and 159 of the source are 0, 1 and 15 of the sample.
    const auto gradient = to_doubles(ours.tensor("grad_" + ours_name));
    const std::string stem = "grad_" + std::string(name == "entropy_student" ? "entropy" : name) + "_row";
    for (const auto& [source, row] : {std::pair{0, 0}, {7, 1}, {159, 15}}) {
      const auto truth = to_doubles(expected.tensor(stem + std::to_string(source)));
      double gap = 0;
      double norm = 0;
      for (std::size_t j = 0; j < truth.size(); ++j) {
        const double difference = gradient[static_cast<std::size_t>(row) * truth.size() + j] - truth[j];
        gap += difference * difference;
        norm += truth[j] * truth[j];
      }
      EXPECT_LE(std::sqrt(gap), 4e-3 * std::sqrt(norm)) << stem << source;
    }
  }
}

TEST_F(Program, ADumpIsAllOrNothing) {
  const Outcome outcome = run("--rows 2 --vocab 8 --path team --comm nccl --dump " + file("x.st"));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_FALSE(fs::exists(file("x.st")));
  EXPECT_NE(outcome.text.find("not written"), std::string::npos) << outcome.text;
}

}  // namespace
