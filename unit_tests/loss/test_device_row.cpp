// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// A row as the threads of a GPU's team take it on path team, one thread after the other on the host: plain sums and
// the exact ones, the plain gradient and its exceptions, edges, odd alignments and mixed types, against the textbook.

#include <gtest/gtest.h>

#include <vocabloss/impl/portable/team_state.hpp>
#include <vocabloss/loss/reference.hpp>

#include <cmath>
#include <vector>

#include "support/compare.hpp"
#include "support/loss_names.hpp"
#include "support/shapes.hpp"

namespace {

using namespace test;
using vocabloss::bfloat16;
using vocabloss::float16;
namespace Impl = vocabloss::Impl;
namespace reference = vocabloss::reference;

enum class Shape { ordinary, decided, tied, ruled_out, all_but_one_ruled_out, far_away, not_a_number, infinite, none };
constexpr Shape all_shapes[] = {
    Shape::ordinary, Shape::decided,      Shape::tied,     Shape::ruled_out, Shape::all_but_one_ruled_out,
    Shape::far_away, Shape::not_a_number, Shape::infinite, Shape::none};

template <class T>
std::vector<double> rounded(std::vector<double> values) {
  for (double& value : values) value = vocabloss::widen(vocabloss::narrow<T>(static_cast<float>(value)));
  return values;
}

/// A row, its teacher and its label, rounded as they are stored.
template <class Loss, class Logit, class Teacher>
reference::RowInput row_of(Shape shape, int columns) {
  reference::RowInput row;
  row.x = logits(columns, 7 + columns);
  row.t = teacher_for(row.x, 8);
  const int some = columns / 2;
  row.label = shape == Shape::decided ? some : columns / 3;
  if (shape == Shape::decided) row.x[some] = row.t[some] = 60;
  if (shape == Shape::tied) row.x[some] = row.x[columns - 1] = row.t[0] = row.t[some] = 30;
  for (int j = 0; j < columns; ++j) {
    const bool is_out = shape == Shape::none || (shape == Shape::all_but_one_ruled_out && j != row.label) ||
                        (shape == Shape::ruled_out && j % 5 == 2 && j != row.label);
    if (is_out) row.x[j] = row.t[j] = -infinity;
    if (shape == Shape::far_away) row.x[j] += 3000, row.t[j] -= 3000;
  }
  if (shape == Shape::not_a_number) row.x[some] = not_a_number;
  if (shape == Shape::infinite) row.x[some] = infinity;
  if (!Loss::teacher_is_logits && Loss::streams == 2) row.t = probabilities(1, columns, 9);
  row.x = rounded<Logit>(row.x);
  row.t = rounded<Teacher>(row.t);
  if (Loss::streams == 1) row.t.clear();
  row.upstream[0] = 0.75, row.upstream[1] = -1.25;
  return row;
}

template <class T>
struct Stored {
  std::vector<T> memory;
  T* first;

  Stored(const std::vector<double>& values, int offset) : memory(values.size() + 32) {
    first = memory.data();
    while (reinterpret_cast<std::uintptr_t>(first) % 16 != 0) ++first;
    first += offset;
    for (std::size_t j = 0; j < values.size(); ++j) first[j] = vocabloss::narrow<T>(static_cast<float>(values[j]));
  }
};

struct Outcome {
  std::vector<double> losses, gradient;
  int plain_rounds = 0;
};

/// The team's threads in turn, merged in order.
template <class Loss, class Logit, int columns_per_thread, class Gradient>
Outcome run_team(const Loss& loss, const Impl::RowCall<float>& call, const reference::RowInput& input, int team,
                 const Gradient* gradient) {
  using Row = Impl::DeviceRow<Loss, Logit, columns_per_thread>;
  std::vector<Row> threads;
  for (int rank = 0; rank < team; ++rank) threads.emplace_back(loss, call, 0, rank, team);
  typename Loss::Statistics statistics{};
  Outcome outcome;
  const auto find = [&]<int round>(std::integral_constant<int, round>) {
    using Plain = Impl::PlainMerge<Loss, round>;
    using Exact = Impl::ExactMerge<Loss, round>;
    auto total = Plain::identity();
    for (const Row& row : threads) {
      Plain::join(loss, total, row.template sum_plainly<round>(statistics, input.label));
    }
    typename Loss::template State<round> state;
    if (Impl::settle_plainly<round>(loss, total, statistics, state)) {
      ++outcome.plain_rounds;
    } else {
      state = Exact::identity();
      for (const Row& row : threads) {
        Exact::join(loss, state, row.template find_state<round>(statistics, input.label));
      }
    }
    loss.template finish<round>(statistics, state);
  };
  find(std::integral_constant<int, 0>{});
  if constexpr (Loss::rounds == 2) find(std::integral_constant<int, 1>{});
  for (int k = 0; k < Loss::outputs; ++k) outcome.losses.push_back(loss.value(statistics, k));
  const vocabloss::loss::Row<float> facts{
      input.label, {static_cast<float>(input.upstream[0]), static_cast<float>(input.upstream[1])}};
  const auto slope = loss.gradient_row(statistics, facts);
  for (const Row& row : threads) row.write_gradient(slope, input.label);
  for (int j = 0; j < call.columns; ++j) outcome.gradient.push_back(vocabloss::widen(gradient[j]));
  return outcome;
}

template <class Tag, class Logit, class Teacher, class Gradient>
Outcome take(const vocabloss::LossOptions& options, const reference::RowInput& input, int columns_offset,
             int teacher_offset, bool in_place) {
  using Loss = typename Tag::template Loss<float>;
  const int columns = static_cast<int>(input.x.size());
  Stored<Logit> x(input.x, columns_offset);
  const Stored<Teacher> t(input.t, teacher_offset);
  Stored<Gradient> g(std::vector<double>(columns, not_a_number), columns_offset);
  Impl::RowCall<float> call;
  call.rows = 1, call.columns = columns, call.vocab = columns;
  call.logits = {x.first, vocabloss::Precision<Logit>::type, columns};
  call.teacher = {t.first, vocabloss::Precision<Teacher>::type, columns};
  call.gradient = {g.first, vocabloss::Precision<Gradient>::type, columns, false};
  const Gradient* gradient = g.first;
  if constexpr (std::is_same_v<Logit, Gradient>) {
    if (in_place) call.gradient.data = x.first, gradient = x.first;
  }
  return run_team<Loss, Logit, 16>(Loss(options), call, input, 5, gradient);
}

/// `tolerance`, `least`: see row_near.
template <class Gradient>
void expect_near(const Outcome& ours, const reference::RowOutput& expected, double tolerance, double least) {
  for (std::size_t k = 0; k < ours.losses.size(); ++k) {
    EXPECT_TRUE(near(ours.losses[k], expected.losses[k], 1e-5 * std::fmax(1, std::fabs(expected.losses[k]))));
  }
  std::vector<double> wanted = expected.gradient;
  for (double& value : wanted) value = vocabloss::widen(vocabloss::narrow<Gradient>(static_cast<float>(value)));
  EXPECT_TRUE(row_near(ours.gradient.data(), wanted.data(), static_cast<int>(wanted.size()), tolerance, least));
}

template <class Tag, class Logit, class Teacher, class Gradient>
void check_all(int columns_offset, int teacher_offset, bool in_place) {
  using Loss = typename Tag::template Loss<float>;
  vocabloss::LossOptions options;
  options.logit_scale = 0.8;
  options.teacher_scale = 1.25;
  options.jsd_beta = 0.3;
  const typename Tag::template Loss<double> exact(options);
  for (const int columns : {1, 7, 64, 100, 1000}) {
    for (const Shape shape : all_shapes) {
      if (sizeof(Logit) == 2 && shape == Shape::far_away && std::is_same_v<Logit, float16>) continue;
      SCOPED_TRACE(testing::Message() << columns << " columns, shape " << static_cast<int>(shape));
      const reference::RowInput input = row_of<Loss, Logit, Teacher>(shape, columns);
      const Outcome ours =
          take<Tag, Logit, Teacher, Gradient>(options, input, columns_offset, teacher_offset, in_place);
      if (shape == Shape::ordinary && columns == 1000) {
        EXPECT_EQ(ours.plain_rounds, Loss::rounds);
      } else if (shape == Shape::not_a_number || shape == Shape::infinite) {
        EXPECT_EQ(ours.plain_rounds, 0);
      }
      // Far from 0, s x_j itself is known to 2^-24 of its size only; of a row that cancels that is much.
      const bool is_far = shape == Shape::far_away;
      const double tolerance = sizeof(Gradient) == 2 ? 1e-3 : is_far ? 1e-4 : 1e-5;
      expect_near<Gradient>(ours, reference::evaluate(exact, input), tolerance, is_far ? 1e-3 : 1e-6);
    }
  }
}

/// One column has probability `peak`, and the teacher nearly agrees: p - q is far smaller than 1 - p.
template <class Tag>
void check_agreement(double peak) {
  const int columns = 4000, some = 1234;
  reference::RowInput row;
  row.x = rounded<bfloat16>(logits(columns, 3));
  double others = 0;
  for (int j = 0; j < columns; ++j) others += j == some ? 0 : std::exp(row.x[j]);
  row.x[some] = std::log(others * peak / (1 - peak));
  row.t = row.x;
  const std::vector<double> noise = logits(columns, 4);
  for (int j = 0; j < columns; ++j) row.t[j] += j == some ? 0 : 0.02 * noise[j];
  row.x = rounded<bfloat16>(row.x);
  row.t = rounded<bfloat16>(row.t);
  row.label = 0;
  row.upstream[0] = 1;
  SCOPED_TRACE(testing::Message() << "p " << peak);
  const vocabloss::LossOptions options;
  const Outcome ours = take<Tag, bfloat16, bfloat16, float>(options, row, 0, 0, false);
  const reference::RowOutput expected = reference::evaluate(typename Tag::template Loss<double>(options), row);
  expect_near<float>(ours, expected, 1e-4, 1e-7);
}

template <class Tag>
struct DeviceRow : ::testing::Test {};
TYPED_TEST_SUITE(DeviceRow, AllLosses, LossNames);

TYPED_TEST(DeviceRow, AlignedAlike) {
  check_all<TypeParam, bfloat16, bfloat16, bfloat16>(0, 0, false);
  check_all<TypeParam, float, float, float>(0, 0, false);
}
TYPED_TEST(DeviceRow, OddButAlike) {
  check_all<TypeParam, bfloat16, bfloat16, bfloat16>(3, 3, false);
  check_all<TypeParam, float16, float16, float16>(5, 5, false);
  check_all<TypeParam, float, float, float>(1, 1, false);
}
TYPED_TEST(DeviceRow, InPlace) {
  check_all<TypeParam, bfloat16, bfloat16, bfloat16>(3, 3, true);
  check_all<TypeParam, float, float, float>(0, 0, true);
}
TYPED_TEST(DeviceRow, OddAndNotAlike) { check_all<TypeParam, bfloat16, bfloat16, bfloat16>(2, 7, false); }
TYPED_TEST(DeviceRow, MixedTypes) { check_all<TypeParam, bfloat16, float, float>(1, 2, false); }

/// A thread has so many columns that in one float sum of them all equal terms would add up an error, and small ones
/// drown in the one that decides the row.
TYPED_TEST(DeviceRow, LongRowsKeepTheirDigits) {
  using Loss = typename TypeParam::template Loss<float>;
  constexpr int columns = 100000, some = columns / 2;
  for (const bool is_decided : {false, true}) {
    SCOPED_TRACE(is_decided ? "decided" : "ordinary");
    reference::RowInput row = row_of<Loss, bfloat16, bfloat16>(Shape::ordinary, columns);
    for (double& value : row.x) value = std::floor(value);
    if (is_decided) {  // with probability .9999
      double others = 0;
      for (int j = 0; j < columns; ++j) others += j == some ? 0 : std::exp(row.x[j]);
      row.x[some] = std::log(others * 9999);
      if (Loss::streams == 2) row.t = Loss::teacher_is_logits ? row.x : reference::softmax(row.x, 1).p;
      row.x = rounded<bfloat16>(row.x);
      row.t = rounded<bfloat16>(row.t);
    }
    const vocabloss::LossOptions options;
    const Outcome ours = take<TypeParam, bfloat16, bfloat16, float>(options, row, 0, 0, false);
    const reference::RowOutput expected = reference::evaluate(typename TypeParam::template Loss<double>(options), row);
    for (std::size_t k = 0; k < ours.losses.size(); ++k) {
      EXPECT_TRUE(near(ours.losses[k], expected.losses[k], 3e-6 * std::fmax(1, std::fabs(expected.losses[k]))));
    }
    EXPECT_TRUE(near(ours.gradient[some], expected.gradient[some], 2e-6 * expected.terms[some]));
  }
}

TEST(DeviceRowOfTwoSoftmaxes, KeepsTheDifferenceOfPeakedRowsThatAgree) {
  for (const double peak : {0.85, 0.9, 0.95, 0.99}) {
    check_agreement<ForwardKl>(peak);
    check_agreement<SoftCrossEntropy>(peak);
    check_agreement<ReverseKl>(peak);
    check_agreement<Jsd>(peak);
  }
}

}  // namespace
