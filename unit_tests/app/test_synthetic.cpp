// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Synthetic data: normal, and the same whatever the size of the problem around it.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>

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

}  // namespace
