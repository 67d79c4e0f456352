// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_ALGEBRA_HPP
#define VOCABLOSS_TEST_ALGEBRA_HPP

/// \file
/// A row through an algebra by hand, cut as a test wants it: what paths do, without the paths.

#include <vocabloss/loss/losses.hpp>

#include <type_traits>
#include <vector>

namespace test {

namespace loss = vocabloss::loss;

/// One row in the algebra's own Real.
template <class Real>
struct AlgebraRow {
  std::vector<Real> x;
  std::vector<Real> t;  ///< empty: one stream
  int label = -1;

  int columns() const { return static_cast<int>(x.size()); }

  template <int N>
  loss::Columns<Real, N> at(int first) const {
    loss::Columns<Real, N> columns{};
    columns.first = first;
    for (int j = 0; j < N; ++j) {
      columns.x.lane[j] = x[first + j];
      if (!t.empty()) columns.t.lane[j] = t[first + j];
    }
    return columns;
  }
};

/// The state of columns [begin, end): packs of N while they last, then single columns.
template <int Round, int N, int Lanes, class Loss, class Real = typename Loss::Real>
auto state_of(const Loss& loss, const AlgebraRow<Real>& row, const typename Loss::Statistics& statistics, int begin,
              int end) {
  auto state = Loss::template identity<Round, Lanes>();
  int j = begin;
  for (; j + N <= end; j += N) loss::absorb<Round>(loss, state, statistics, row.template at<N>(j), row.label);
  for (; j < end; ++j) loss::absorb<Round>(loss, state, statistics, row.template at<1>(j), row.label);
  return Loss::template collapse<Round, Lanes>(state);
}

/// Calls `visitor` once per round with an integral constant.
template <class Loss, class Visitor>
void for_each_round(Visitor&& visitor) {
  visitor(std::integral_constant<int, 0>{});
  if constexpr (Loss::rounds == 2) visitor(std::integral_constant<int, 1>{});
}

/// Statistics of the whole row when it is cut at `cuts` (ascending, inside the row) and the pieces are merged in order.
template <int N, int Lanes, class Loss, class Real = typename Loss::Real>
typename Loss::Statistics statistics_of(const Loss& loss, const AlgebraRow<Real>& row,
                                        const std::vector<int>& cuts = {}) {
  typename Loss::Statistics statistics{};
  for_each_round<Loss>([&](auto round) {
    auto whole = Loss::template identity<round, 1>();
    int begin = 0;
    for (std::size_t k = 0; k <= cuts.size(); ++k) {
      const int end = k < cuts.size() ? cuts[k] : row.columns();
      whole = loss.template merge<round>(whole, state_of<round, N, Lanes>(loss, row, statistics, begin, end));
      begin = end;
    }
    loss.template finish<round>(statistics, whole);
  });
  return statistics;
}

template <class Real>
struct RowResult {
  std::vector<double> losses;
  std::vector<double> gradient;
};

template <int N = 4, int Lanes = 1, class Loss, class Real = typename Loss::Real>
RowResult<Real> evaluate(const Loss& loss, const AlgebraRow<Real>& row, std::vector<double> upstream = {1, 1},
                         const std::vector<int>& cuts = {}) {
  const auto statistics = statistics_of<N, Lanes>(loss, row, cuts);
  RowResult<Real> result;
  for (int k = 0; k < Loss::outputs; ++k) result.losses.push_back(loss.value(statistics, k));
  const auto slope = loss.gradient_row(statistics, loss::Row<Real>{row.label, {Real(upstream[0]), Real(upstream[1])}});
  int j = 0;
  for (; j + N <= row.columns(); j += N) {
    const auto pack = loss.gradient(slope, row.template at<N>(j), row.label);
    for (int l = 0; l < N; ++l) result.gradient.push_back(pack.lane[l]);
  }
  for (; j < row.columns(); ++j) {
    result.gradient.push_back(loss.gradient(slope, row.template at<1>(j), row.label).lane[0]);
  }
  return result;
}

}  // namespace test

#endif
