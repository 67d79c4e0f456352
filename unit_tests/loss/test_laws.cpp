// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The laws of every loss algebra (loss/concept.hpp): identity, associativity, commutativity, any cut of a row, pieces
// of minus infinities. Statistics are compared as the numbers they are made of.

#include <algorithm>
#include <random>

#include "support/algebra.hpp"
#include "support/compare.hpp"
#include "support/loss_names.hpp"
#include "support/shapes.hpp"

namespace {

using namespace test;

template <class Real>
constexpr double tolerance = sizeof(Real) == 4 ? 4e-6 : 1e-14;

template <class Loss>
std::vector<double> numbers(const typename Loss::Statistics& statistics) {
  using Real = typename Loss::Real;
  const Real* values = reinterpret_cast<const Real*>(&statistics);
  return std::vector<double>(values, values + sizeof(statistics) / sizeof(Real));
}

template <class Loss>
void expect_same(const typename Loss::Statistics& actual, const typename Loss::Statistics& expected) {
  using Real = typename Loss::Real;
  EXPECT_TRUE(all_near(numbers<Loss>(actual), numbers<Loss>(expected), tolerance<Real>, tolerance<Real>));
}

/// Outliers in both streams, and columns that both streams rule out.
template <class Loss>
AlgebraRow<typename Loss::Real> some_row(int columns, unsigned seed) {
  using Real = typename Loss::Real;
  const auto x = logits(columns, seed);
  const auto t =
      Loss::streams == 2 && !Loss::teacher_is_logits ? probabilities(1, columns, seed + 1) : teacher_for(x, seed + 1);
  AlgebraRow<Real> row{{x.begin(), x.end()}, {}, columns / 3};
  if (Loss::streams == 2) row.t.assign(t.begin(), t.end());
  for (int j = 4; j < columns; j += 7) {
    if (j == row.label) continue;
    row.x[j] = Real(-infinity);
    if (Loss::streams == 2) row.t[j] = Loss::teacher_is_logits ? Real(-infinity) : Real(0);
  }
  return row;
}

template <class Tag>
struct Laws : ::testing::Test {
  template <class Visitor>
  void for_both_precisions(Visitor&& visitor) {
    vocabloss::LossOptions options;
    options.logit_scale = 0.8;
    options.teacher_scale = 1.25;
    options.jsd_beta = 0.3;
    visitor(typename Tag::template Loss<float>(options));
    visitor(typename Tag::template Loss<double>(options));
  }
};
TYPED_TEST_SUITE(Laws, AllLosses, LossNames);

/// Three pieces of a row, for each round, with the statistics of the rounds before.
template <class Loss, class Visitor>
void for_pieces(const Loss& loss, Visitor&& visitor) {
  const auto row = some_row<Loss>(60, 11);
  typename Loss::Statistics statistics{};
  for_each_round<Loss>([&](auto round) {
    const auto a = state_of<round, 4, 1>(loss, row, statistics, 0, 17);
    const auto b = state_of<round, 4, 1>(loss, row, statistics, 17, 40);
    const auto c = state_of<round, 4, 1>(loss, row, statistics, 40, 60);
    const auto finished = [&](const auto& state) {
      auto result = statistics;
      loss.template finish<round>(result, state);
      return result;
    };
    visitor(round, a, b, c, finished);
    loss.template finish<round>(statistics, state_of<round, 4, 1>(loss, row, statistics, 0, 60));
  });
}

TYPED_TEST(Laws, IdentityIsNeutral) {
  this->for_both_precisions([](const auto& loss) {
    using Loss = std::decay_t<decltype(loss)>;
    for_pieces(loss, [&](auto round, const auto& a, const auto&, const auto&, const auto& finished) {
      const auto none = Loss::template identity<round, 1>();
      expect_same<Loss>(finished(loss.template merge<round>(none, a)), finished(a));
      expect_same<Loss>(finished(loss.template merge<round>(a, none)), finished(a));
    });
  });
}

TYPED_TEST(Laws, MergeIsCommutative) {
  this->for_both_precisions([](const auto& loss) {
    using Loss = std::decay_t<decltype(loss)>;
    for_pieces(loss, [&](auto round, const auto& a, const auto& b, const auto&, const auto& finished) {
      expect_same<Loss>(finished(loss.template merge<round>(a, b)), finished(loss.template merge<round>(b, a)));
    });
  });
}

TYPED_TEST(Laws, MergeIsAssociative) {
  this->for_both_precisions([](const auto& loss) {
    using Loss = std::decay_t<decltype(loss)>;
    for_pieces(loss, [&](auto round, const auto& a, const auto& b, const auto& c, const auto& finished) {
      const auto left = loss.template merge<round>(loss.template merge<round>(a, b), c);
      const auto right = loss.template merge<round>(a, loss.template merge<round>(b, c));
      expect_same<Loss>(finished(left), finished(right));
    });
  });
}

template <int N, int Lanes, class Loss>
void expect_cuts_do_not_matter(const Loss& loss) {
  std::mt19937 engine(N * 100 + Lanes);
  for (const int columns : {1, 2, 37, 300}) {
    const auto row = some_row<Loss>(columns, columns);
    const auto whole = statistics_of<1, 1>(loss, row);
    for (int repeat = 0; repeat < 8; ++repeat) {
      std::vector<int> cuts(std::uniform_int_distribution<int>(0, 6)(engine));  // repeated cuts: empty pieces
      for (int& cut : cuts) cut = std::uniform_int_distribution<int>(0, columns)(engine);
      std::sort(cuts.begin(), cuts.end());
      SCOPED_TRACE(::testing::Message() << columns << " columns, packs of " << N << ", " << Lanes << " lanes, cuts "
                                        << ::testing::PrintToString(cuts));
      expect_same<Loss>(statistics_of<N, Lanes>(loss, row, cuts), whole);
    }
  }
}

TYPED_TEST(Laws, AnyCutGivesTheSame) {
  const typename TypeParam::template Loss<float> loss(vocabloss::LossOptions{});
  expect_cuts_do_not_matter<1, 1>(loss);
  expect_cuts_do_not_matter<2, 1>(loss);
  expect_cuts_do_not_matter<4, 16>(loss);
  expect_cuts_do_not_matter<8, 1>(loss);
  expect_cuts_do_not_matter<16, 16>(loss);
  expect_cuts_do_not_matter<8, 8>(typename TypeParam::template Loss<double>(vocabloss::LossOptions{}));
}

/// Maxima that move by more than 2^100 from piece to piece, in either order, and logits that stand for "impossible".
TYPED_TEST(Laws, AnyCutGivesTheSameAtAnyMagnitude) {
  const typename TypeParam::template Loss<float> loss(vocabloss::LossOptions{});
  using Loss = std::decay_t<decltype(loss)>;
  for (const float far : {1e4f, 1e9f, 1e25f, 1e30f, 1e35f, 1e37f, 2e38f}) {
    for (const bool student : {true, false}) {
      AlgebraRow<float> row{{1, 2, 1, 2, 0, 1}, {}, 1};
      if (Loss::streams == 2) row.t = Loss::teacher_is_logits ? row.x : std::vector<float>{0, .5f, 0, .25f, .25f, 0};
      if (!student && !(Loss::streams == 2 && Loss::teacher_is_logits)) continue;
      (student ? row.x : row.t)[0] = -far;
      (student ? row.x : row.t)[4] = -far;
      const auto whole = statistics_of<1, 1>(loss, {{row.x.rbegin(), row.x.rend()}, {row.t.rbegin(), row.t.rend()}, 4});
      SCOPED_TRACE(::testing::Message() << (student ? "logit -" : "teacher logit -") << far);
      for (int cut = 0; cut <= 6; ++cut) {
        const auto parts = statistics_of<2, 1>(loss, row, {cut});
        EXPECT_TRUE(all_near(numbers<Loss>(parts), numbers<Loss>(whole), 4e-6, 4e-6)) << "cut at " << cut;
      }
    }
  }
}

/// Which streams of a piece are minus infinity: both, or either alone.
enum class Impossible { both, student, teacher };

template <class Loss>
void expect_piece_is_right(const Loss& loss, Impossible which) {
  using Real = typename Loss::Real;
  auto row = some_row<Loss>(48, 5);
  row.label = 3;
  const bool probabilities_given = Loss::streams == 2 && !Loss::teacher_is_logits;
  for (int j = 16; j < 32; ++j) {
    if (which != Impossible::teacher) row.x[j] = Real(-infinity);
    if (Loss::streams == 2 && which != Impossible::student) row.t[j] = probabilities_given ? Real(0) : Real(-infinity);
  }
  const auto expected = evaluate<1>(loss, row);
  // First, in the middle and last: order must not matter.
  for (const std::vector<int>& cuts : std::vector<std::vector<int>>{{16, 32}, {32}, {16}}) {
    const auto actual = evaluate<4>(loss, row, {1, 1}, cuts);
    EXPECT_TRUE(all_near(actual.losses, expected.losses, tolerance<Real>, tolerance<Real>));
    EXPECT_TRUE(all_near(actual.gradient, expected.gradient, tolerance<Real>, tolerance<Real>));
  }
  AlgebraRow<Real> rotated = row;  // the impossible piece comes first
  std::rotate(rotated.x.begin(), rotated.x.begin() + 16, rotated.x.end());
  if (Loss::streams == 2) std::rotate(rotated.t.begin(), rotated.t.begin() + 16, rotated.t.end());
  rotated.label = 3 + 32;
  const auto first = evaluate<4>(loss, rotated, {1, 1}, {16});
  EXPECT_TRUE(all_near(first.losses, expected.losses, tolerance<Real>, tolerance<Real>));
  if (which != Impossible::both) return;
  // Impossible in both streams: as if the piece were not there, and its gradient is 0.
  AlgebraRow<Real> without = row;
  without.x.erase(without.x.begin() + 16, without.x.begin() + 32);
  if (Loss::streams == 2) without.t.erase(without.t.begin() + 16, without.t.begin() + 32);
  EXPECT_TRUE(all_near(evaluate<1>(loss, without).losses, expected.losses, tolerance<Real>, tolerance<Real>));
  for (int j = 16; j < 32; ++j) EXPECT_EQ(expected.gradient[j], 0) << "column " << j;
}

TYPED_TEST(Laws, APieceOfMinusInfinitiesIsNeutral) {
  this->for_both_precisions([](const auto& loss) { expect_piece_is_right(loss, Impossible::both); });
}

TYPED_TEST(Laws, APieceThatOneStreamRulesOutNeedsNoSpecialOrder) {
  this->for_both_precisions([](const auto& loss) {
    expect_piece_is_right(loss, Impossible::student);
    expect_piece_is_right(loss, Impossible::teacher);
  });
}

}  // namespace
