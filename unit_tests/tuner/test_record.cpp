// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The tuner's file: what is written is read again; what is no record, or another version's, is refused.

#include <gtest/gtest.h>
#include <vocabloss/tuning/record.hpp>
#include <vocabloss/version.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using namespace vocabloss;
namespace fs = std::filesystem;

class Record : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / ("vocabloss_record_" + std::string(info->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    file_ = (folder_ / "tuning.json").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string text() const {
    std::ifstream stream(file_);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void replace(const std::string& old, const std::string& by) const {
    std::string all = text();
    const std::size_t at = all.find(old);
    ASSERT_NE(at, std::string::npos) << old << " in\n" << all;
    all.replace(at, old.size(), by);
    std::ofstream(file_) << all;
  }
  void expect_refused(const std::vector<std::string>& words) const {
    try {
      TuningRecord::read(file_);
      ADD_FAILURE() << "accepted:\n" << text();
    } catch (const TuningRecordError& error) {
      for (const std::string& word : words) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what() << "\nwithout: " << word;
      }
    }
  }

  fs::path folder_;
  std::string file_;
};

TuningKey some_key() {
  return {.card = "A card",
          .loss = "Some<float>",
          .pass = Pass::backward,
          .rows = 4096,
          .vocab = 50257,
          .columns = 25129,
          .ranks = 2,
          .communicator = "mpi, 2 ranks",
          .exchange = "any",
          .logits = DataType::bf16,
          .teacher = DataType::fp32,
          .gradient = std::nullopt,
          .accumulate = true,
          .in_place = false,
          .aligned = false};
}

TunedChoice some_choice() {
  TunedChoice choice;
  choice.request.path = Path::cluster;
  choice.request.block_cap = 2048;
  choice.request.exchange = Exchange::in_kernel;
  choice.request.block_rows = 17;
  choice.request.variant = "some \"shape\"";
  choice.plan = "cluster in words";
  choice.time = {0.1, 0.05, 1e-3};
  return choice;
}

void expect_same(const TunedChoice& a, const TunedChoice& b) {
  EXPECT_EQ(a.request.path, b.request.path);
  EXPECT_EQ(a.request.block_cap, b.request.block_cap);
  EXPECT_EQ(a.request.exchange, b.request.exchange);
  EXPECT_EQ(a.request.block_rows, b.request.block_rows);
  EXPECT_EQ(a.request.variant, b.request.variant);
  EXPECT_EQ(a.plan, b.plan);
  EXPECT_EQ(a.time, b.time);
}

TEST_F(Record, IsReadAsItWasWritten) {
  TuningRecord record;
  record.add(some_key(), some_choice());
  TuningKey other = some_key();
  other.gradient = DataType::fp16;
  TunedChoice team;
  team.request.path = Path::team;
  record.add(other, team);
  record.write(file_);
  const TuningRecord again = TuningRecord::read(file_);
  EXPECT_EQ(again.size(), 2u);
  ASSERT_TRUE(again.find(some_key()));
  ASSERT_TRUE(again.find(other));
  expect_same(*again.find(some_key()), some_choice());
  expect_same(*again.find(other), team);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "something was left beside the file";
}

TEST_F(Record, FindsOnlyTheSameKey) {
  TuningRecord record;
  record.add(some_key(), some_choice());
  const auto expect_absent = [&](auto change) {
    TuningKey key = some_key();
    change(key);
    EXPECT_FALSE(record.find(key));
  };
  expect_absent([](TuningKey& k) { k.card += "!"; });
  expect_absent([](TuningKey& k) { k.loss += "!"; });
  expect_absent([](TuningKey& k) { k.pass = Pass::forward; });
  expect_absent([](TuningKey& k) { ++k.rows; });
  expect_absent([](TuningKey& k) { ++k.vocab; });
  expect_absent([](TuningKey& k) { ++k.columns; });
  expect_absent([](TuningKey& k) { ++k.ranks; });
  expect_absent([](TuningKey& k) { k.communicator += "!"; });
  expect_absent([](TuningKey& k) { k.exchange = "allgather"; });
  expect_absent([](TuningKey& k) { k.logits = DataType::fp16; });
  expect_absent([](TuningKey& k) { k.teacher.reset(); });
  expect_absent([](TuningKey& k) { k.gradient = DataType::fp32; });
  expect_absent([](TuningKey& k) { k.accumulate = false; });
  expect_absent([](TuningKey& k) { k.in_place = true; });
  expect_absent([](TuningKey& k) { k.aligned = true; });
  TunedChoice newer = some_choice();
  newer.request.block_cap = 1;
  record.add(some_key(), newer);
  EXPECT_EQ(record.size(), 1u);
  expect_same(*record.find(some_key()), newer);
}

TEST_F(Record, NoFileIsAnEmptyRecord) { EXPECT_EQ(TuningRecord::read(file_).size(), 0u); }

TEST_F(Record, WhatIsNoRecordIsRefused) {
  for (const std::string text : {"", "no JSON", "{", "[]", "{}", "3", R"({"format": 1})"}) {
    std::ofstream(file_) << text;
    expect_refused({file_, "malformed", "delete it"});
  }
}

TEST_F(Record, EntriesAreReadStrictly) {
  const auto expect_malformed = [&](const std::string& old, const std::string& by, const std::string& word) {
    TuningRecord record;
    record.add(some_key(), some_choice());
    record.write(file_);
    replace(old, by);
    expect_refused({file_, "malformed", word});
  };
  expect_malformed("\"rows\": 4096", "\"rows\": \"many\"", "number");
  expect_malformed("\"rows\": 4096,", "", "rows");
  expect_malformed("\"path\": \"cluster\"", "\"path\": \"clutter\"", "no path \"clutter\"");
  expect_malformed("\"pass\": \"backward\"", "\"pass\": \"sideward\"", "no pass \"sideward\"");
  expect_malformed("\"exchange\": \"in_kernel\"", "\"exchange\": \"post\"", "no exchange \"post\"");
  expect_malformed("\"logits\": \"bf16\"", "\"logits\": \"fp8\"", "no type \"fp8\"");
}

TEST_F(Record, OtherVersionsAreRefusedWithBothValues) {
  TuningRecord().write(file_);
  replace("\"format\": 1", "\"format\": 7");
  expect_refused({file_, "format 7", "format 1", "delete it"});
  TuningRecord().write(file_);
  replace(version_string, "0.0.9");
  expect_refused({file_, "VocabLoss 0.0.9", "VocabLoss " + std::string(version_string), "delete it"});
}

TEST_F(Record, UnreadableAndUnwritableFilesAreNamed) {
  const std::string nowhere = (folder_ / "no" / "such" / "place.json").string();
  try {
    TuningRecord().write(nowhere);
    ADD_FAILURE() << "written";
  } catch (const TuningRecordError& error) {
    EXPECT_NE(std::string(error.what()).find(nowhere), std::string::npos) << error.what();
  }
  file_ = folder_.string();  // a folder is no file
  expect_refused({file_, "cannot be read"});
}

TEST_F(Record, AFailedWriteLeavesTheOldFile) {
  TuningRecord record;
  record.add(some_key(), some_choice());
  fs::create_directories(folder_ / "taken");
  EXPECT_THROW(record.write((folder_ / "taken").string()), TuningRecordError);  // a folder cannot be replaced
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

}  // namespace
