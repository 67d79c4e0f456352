// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// What becomes of the words of several ranks: one status, one text, one verdict on equal bits.
#include <gtest/gtest.h>

#include <cmath>

#include "case_status.hpp"
#include "check.hpp"
#include "ranks.hpp"

namespace {

using namespace entropy_sweep;

TEST(Ranks, OneStatusForACase) {
  EXPECT_EQ(common_status({"ok"}), "ok");
  EXPECT_EQ(common_status({"refused: why"}), "refused: why");
  EXPECT_EQ(common_status({"ok", "ok", "ok"}), "ok");
  EXPECT_EQ(common_status({"refused: why", "refused: why"}), "refused: why");
  EXPECT_EQ(common_status({"ok", "oom: no room"}), "oom: rank 1: no room");
  EXPECT_EQ(common_status({"refused: a", "ok", "failed: b"}), "failed: rank 0: a; rank 2: b");
  EXPECT_EQ(common_status({"ok", "what is this"}), "failed: rank 1: what is this");
}

TEST(Ranks, OneTextWithTheNumbersOfThoseWhoDiffer) {
  EXPECT_EQ(common_text({"a\n", "a\n"}), "a\n");
  EXPECT_EQ(common_text({"", "a\n", "b\n"}), "rank 1 of 3: a\nrank 2 of 3: b\n");
}

TEST(Ranks, EqualBitsAndNoOthers) {
  const std::string some = bits_of({{1.0, std::nan("")}, {0.0}});
  EXPECT_EQ(some, bits_of({{1.0, -std::nan("1")}, {0.0}}));
  for (const double other : {std::nextafter(1.0, 2.0), -1.0, std::nan("")}) {
    EXPECT_NE(some, bits_of({{other, std::nan("")}, {0.0}})) << other;
  }
  EXPECT_EQ(difference_of_ranks({some, some, some}), "");
  EXPECT_NE(difference_of_ranks({some, some, bits_of({})}).find("rank 2"), std::string::npos);
}

TEST(Ranks, AStepThatFailsEndsTheCase) {
  int argc = 0;
  char** argv = nullptr;
  const Ranks alone(Comm::self, argc, argv);
  EXPECT_NO_THROW(in_step(alone, [] {}));
  try {
    in_step(alone, [] { throw OutOfMemory("8 bytes"); });
    FAIL() << "nothing was thrown";
  } catch (const CaseEnded& ended) {
    EXPECT_STREQ(ended.what(), "oom: 8 bytes");
  }
  EXPECT_THROW(all_or_none(alone, [] { throw std::runtime_error("alone, it goes on"); }), std::runtime_error);
}

}  // namespace
