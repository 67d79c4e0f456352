// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Synthetic data: normal, and the same whatever the size of the problem around it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "problem.hpp"
#include "synthetic.hpp"

namespace {

using namespace entropy_sweep;

TEST(Synthetic, LogitsAreStandardNormal) {
  const std::uint64_t key = row_key(0, Sequence::logits, 0);
  constexpr int pairs = 100'000;
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  double largest = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    const NormalPair values = normal_pair(key, pair);
    for (const float value : {values.first, values.second}) {
      const double x = static_cast<double>(value);
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
      largest = std::fmax(largest, std::fabs(x));
    }
  }
  // Bounds of five standard errors: 1/sqrt(n), sqrt(2/n), sqrt(96/n) with n = 200000.
  EXPECT_NEAR(sum / (2 * pairs), 0, 0.012);
  EXPECT_NEAR(squares / (2 * pairs), 1, 0.016);
  EXPECT_NEAR(fourths / (2 * pairs), 3, 0.11);
  EXPECT_GT(largest, 4);
  EXPECT_LT(largest, 5.8);
}

TEST(Synthetic, SeedsSequencesAndRowsDiffer) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (const Sequence sequence : {Sequence::logits, Sequence::teacher, Sequence::labels}) {
      for (std::int64_t row = 0; row < 100; ++row) keys.insert(row_key(seed, sequence, row));
    }
  }
  EXPECT_EQ(keys.size(), 4u * 3 * 100);
}

TEST(Synthetic, LabelsCoverTheVocabulary) {
  std::set<std::int64_t> seen;
  for (std::int64_t row = 0; row < 1000; ++row) {
    const std::int64_t label = random_label(7, row, 10);
    EXPECT_GE(label, 0);
    EXPECT_LT(label, 10);
    seen.insert(label);
    EXPECT_EQ(random_label(7, row, 1), 0);
  }
  EXPECT_EQ(seen.size(), 10u);
}

TEST(Synthetic, ARowDoesNotDependOnTheNumberOfRowsOrTheType) {
  const auto spec = [](std::int64_t rows, const vocabloss::VocabPartition& partition, ValueType type) {
    return ProblemSpec{.rows = rows, .vocab = partition.vocab, .type = type, .seed = 3, .partition = partition};
  };
  const ProblemSpec small = spec(2, vocabloss::VocabPartition::whole(33), ValueType::fp32);
  const ProblemSpec large = spec(9, vocabloss::VocabPartition::whole(34), ValueType::fp64);
  const auto few = make_problem(small, Comm::self, Sharing{})->logits_row(1);
  const auto many = make_problem(large, Comm::self, Sharing{})->logits_row(1);
  ASSERT_EQ(few.size(), 33u);
  ASSERT_EQ(many.size(), 34u);
  for (std::size_t j = 0; j < few.size(); ++j) EXPECT_EQ(few[j], many[j]) << j;
  const ProblemSpec shard = spec(2, {33, 20, 13}, ValueType::fp32);  // nor on how the vocabulary is cut
  const auto part = make_problem(shard, Comm::self, Sharing{})->logits_row(1);
  ASSERT_EQ(part.size(), 13u);
  for (std::size_t j = 0; j < part.size(); ++j) EXPECT_EQ(part[j], few[20 + j]) << j;
  const Case one{.loss = Loss::jsd, .type = ValueType::fp32};
  EXPECT_NE(make_problem(small, Comm::self, Sharing{})->teacher_row(one, 1), few);
}

ProblemSpec peaked_spec(std::int64_t rows, const vocabloss::VocabPartition& partition) {
  return {.rows = rows,
          .vocab = partition.vocab,
          .type = ValueType::fp64,
          .seed = 5,
          .data = Data::peaked,
          .partition = partition};
}

TEST(Synthetic, APeakedRowIsTheSameHoweverTheVocabularyIsCut) {
  constexpr std::int64_t rows = 24;
  const Case one{.loss = Loss::jsd, .type = ValueType::fp64};
  const auto whole = make_problem(peaked_spec(rows, vocabloss::VocabPartition::whole(37)), Comm::self, Sharing{});
  for (const auto& [first, columns] : {std::pair{0, 1}, {1, 17}, {18, 0}, {18, 19}}) {
    const auto part = make_problem(peaked_spec(rows, {37, first, columns}), Comm::self, Sharing{});
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::vector<double> logits = whole->logits_row(i), teacher = whole->teacher_row(one, i);
      const std::vector<double> cut(logits.begin() + first, logits.begin() + first + columns);
      const std::vector<double> cut_teacher(teacher.begin() + first, teacher.begin() + first + columns);
      EXPECT_EQ(part->logits_row(i), cut) << i << " from " << first;
      EXPECT_EQ(part->teacher_row(one, i), cut_teacher) << i << " from " << first;
    }
  }
  EXPECT_EQ(labels_of(peaked_spec(rows, {37, 18, 19})),
            labels_of(peaked_spec(rows, vocabloss::VocabPartition::whole(37))));
}

std::vector<double> softmax(const std::vector<double>& logits) {
  double sum = 0;
  for (const double x : logits) sum += std::exp(x);
  std::vector<double> p;
  for (const double x : logits) p.push_back(std::exp(x) / sum);
  return p;
}

TEST(Synthetic, PeakedRowsAreLikeALanguageModels) {
  constexpr std::int64_t rows = 400;
  const ProblemSpec spec = peaked_spec(rows, vocabloss::VocabPartition::whole(8192));
  const auto problem = make_problem(spec, Comm::self, Sharing{});
  const std::vector<std::int64_t> labels = labels_of(spec);
  int flat = 0, sure = 0, unsure = 0, at_largest = 0, shared = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::vector<double> p = softmax(problem->logits_row(i));
    const std::vector<double> q = softmax(problem->teacher_row({.loss = Loss::jsd, .type = ValueType::fp64}, i));
    const auto largest = std::max_element(p.begin(), p.end());
    const auto where = static_cast<std::size_t>(largest - p.begin());
    if (*largest < 0.1) {
      ++flat;
      continue;
    }
    EXPECT_GT(*largest, 0.25) << i;
    EXPECT_LT(*largest, 0.99995) << i;
    sure += *largest > 0.999 ? 1 : 0;
    unsure += *largest < 0.5 ? 1 : 0;
    at_largest += labels[static_cast<std::size_t>(i)] == static_cast<std::int64_t>(where) ? 1 : 0;
    shared += q[where] == *std::max_element(q.begin(), q.end()) ? 1 : 0;
  }
  EXPECT_NEAR(flat, rows / 8, 30);
  EXPECT_GT(sure, rows / 10);
  EXPECT_GT(unsure, rows / 100);
  EXPECT_GT(at_largest, rows / 2);
  EXPECT_GT(shared, rows * 2 / 3);
}

}  // namespace
