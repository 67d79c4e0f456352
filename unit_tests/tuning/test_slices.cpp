// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Which pieces of a slice path cluster takes the short way: plain arithmetic, checked where no GPU is.

#include <gtest/gtest.h>
#include <vocabloss/impl/cuda/row_layout.hpp>
#include <vocabloss/tuning/cluster_shape.hpp>

#include <vector>

namespace {

using namespace vocabloss;
using Impl::SliceOfRow;

constexpr int columns_of_vector = 8, piece_vectors = 512;
using Layout = Impl::RowLayout<columns_of_vector, piece_vectors>;

struct Case {
  Layout row;
  int width;
  Impl::SliceLayout slices;

  /// As a launch cuts rows that start anywhere.
  Case(int columns, int phase, int blocks) : row{phase, columns}, width(blocks) {
    const ClusterShape shape{256, 2, 2, blocks, 0};
    const ClusterCut cut = shape.cut(Impl::most_vectors<columns_of_vector>(columns, false), 1, 100 * 1024);
    slices = {static_cast<int>(cut.slice_vectors), static_cast<int>(cut.pieces)};
  }
};

/// Calls `check(vector, is_ordinary)` for all vectors of a slice, as the consumers take them: the first warp has a view
/// of its own.
template <class Check>
void walk(const Case& of, int rank, std::uint32_t oddity, Check&& check) {
  constexpr int threads = 256, lanes = 32;
  const int first = rank * of.slices.slice_vectors, pieces = of.slices.pieces;
  const SliceOfRow of_first_warp = slice_of_row(of.row, oddity, of.slices, rank);
  const SliceOfRow of_others = of_first_warp.without_first_vector();
  EXPECT_EQ(of_first_warp.first_column, of.row.column_of(first));
  for (const bool is_first_warp : {true, false}) {
    const SliceOfRow& slice = is_first_warp ? of_first_warp : of_others;
    const auto take = [&](int piece, int count, bool is_ordinary) {
      for (int v = 0; v < count; ++v) {
        if ((v % threads < lanes) == is_first_warp) check(first + piece * piece_vectors + v, is_ordinary);
      }
    };
    int p = 0;
    while (p < pieces) {
      for (const int stop = slice.ordinary_until(p, pieces); p < stop; ++p) take(p, piece_vectors, true);
      if (p == pieces) break;
      EXPECT_EQ(slice.count(of.slices, p, piece_vectors), of.row.piece(of.slices, rank, p).count);
      take(p, slice.count(of.slices, p, piece_vectors), false);
      ++p;
    }
  }
  // The tail is dealt to the warps in another way, and is the same for all.
  const int tail = of_first_warp.tail(pieces, piece_vectors);
  EXPECT_EQ(of_others.tail(pieces, piece_vectors), tail);
  if (tail > 0) {
    for (const SliceOfRow& slice : {of_first_warp, of_others}) {
      EXPECT_EQ(slice.count(of.slices, pieces, piece_vectors), tail);
      EXPECT_EQ(slice.count(of.slices, pieces - 1, piece_vectors), piece_vectors) << "the tail apart";
    }
  }
  for (int v = 0; v < tail; ++v) check(first + pieces * piece_vectors + v, false);
}

TEST(Slices, TakeEveryVectorOnceAndOrdinaryOnesAreTheRowsAlone) {
  for (int columns = 1; columns < 60000; columns = columns * 21 / 20 + 1) {
    for (const int off : {0, 1, 2, 3, 4, 5, 6, 7}) {  // around the vectors' and pieces' boundaries too
      const int count = columns / 4096 * 4096 + (columns % 4096 < 2048 ? off + 1 : columns % 4096);
      for (const int phase : {0, 1, 5, 7}) {
        for (const int width : {1, 2, 8}) {
          const Case of(count, phase, width);
          std::vector<int> taken(of.row.vectors(), 0);
          for (int rank = 0; rank < width; ++rank) {
            walk(of, rank, 0, [&](int vector, bool is_ordinary) {
              ASSERT_LT(vector, of.row.vectors()) << count << " columns, phase " << phase << ", width " << width;
              ++taken[vector];
              if (!is_ordinary) return;
              EXPECT_GE(of.row.column_of(vector), 0) << count << " columns, phase " << phase << ", width " << width;
              EXPECT_LE(of.row.column_of(vector + 1), count) << "phase " << phase << ", width " << width;
            });
          }
          for (int v = 0; v < of.row.vectors(); ++v) {
            ASSERT_EQ(taken[v], 1) << "vector " << v << ": " << count << " columns, phase " << phase << ", width "
                                   << width;
          }
        }
      }
    }
  }
}

TEST(Slices, HaveNothingOrdinaryWhereAnotherStreamStartsElsewhere) {
  const Case of(50257, 3, 2);
  for (const std::uint32_t oddity : {SliceOfRow::shifted, SliceOfRow::moved}) {
    for (int rank = 0; rank < 2; ++rank) {
      walk(of, rank, oddity, [](int, bool is_ordinary) { EXPECT_FALSE(is_ordinary); });
      EXPECT_NE(slice_of_row(of.row, oddity, of.slices, rank).odd & oddity, 0u);
    }
  }
}

TEST(Slices, AreMostlyOrdinary) {
  const Case of(50257, 3, 2);
  int ordinary = 0, others = 0;
  for (int rank = 0; rank < 2; ++rank) {
    walk(of, rank, 0, [&](int, bool is_ordinary) { ++(is_ordinary ? ordinary : others); });
  }
  EXPECT_LE(others, 2 * 32 + 2 * piece_vectors / 4);  // the first warp's part of the first piece, and two tails
  EXPECT_GT(ordinary, 4 * piece_vectors);
}

}  // namespace
