// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_CUDA_ROW_LAYOUT_HPP
#define VOCABLOSS_IMPL_CUDA_ROW_LAYOUT_HPP

/// \file
/// \brief How a row of any length and alignment is cut into vectors, slices and pieces. Plain arithmetic.
///
/// A row is seen as the granules of 16 bytes (vectors) that it touches: the first and the last may hold columns of its
/// neighbours. A bulk copy moves whole granules and nothing outside them. Vectors are dealt to the blocks of a cluster
/// in slices, and to the slots of a block in pieces:
///
///     50257 bf16 columns, byte offset 6 of 16: phase 3, ceil((3 + 50257) / 8) = 6283 vectors
///     cluster of 2: slices of 3142 vectors (6284 = the most that any phase needs, over 2)
///     pieces of 512 vectors: 6 a slice, and the last takes the 70 vectors that are left (69 in the second slice)

#include <Kokkos_Macros.hpp>

#include <cstdint>

namespace vocabloss::Impl {

/// What all rows of a launch share: see ClusterShape::cut.
struct SliceLayout {
  int slice_vectors;  ///< of a block
  int pieces;         ///< of a slice; the last one takes what is left, be it more than a full piece or nothing
};

/// The vectors from `first` on that one slot holds.
struct Piece {
  int first;
  int count;
};

/// `Columns` columns a vector, `PieceVectors` vectors in a full piece.
template <int Columns, int PieceVectors>
struct RowLayout {
  int phase;    ///< columns of the neighbour before this row in the first vector
  int columns;  ///< of the row

  /// Of a row that starts at this address.
  template <class T>
  KOKKOS_INLINE_FUNCTION static RowLayout at(const T* row, int columns) {
    return {static_cast<int>((reinterpret_cast<std::uintptr_t>(row) % 16) / sizeof(T)), columns};
  }

  KOKKOS_INLINE_FUNCTION int vectors() const { return columns == 0 ? 0 : (columns - 1 + phase) / Columns + 1; }

  /// Vectors of a slice; the last slices may have fewer than the others, or none.
  KOKKOS_INLINE_FUNCTION int vectors_in(const SliceLayout& slices, int slice) const {
    const int rest = vectors() - slice * slices.slice_vectors;
    return rest < 0 ? 0 : smaller(rest, slices.slice_vectors);
  }

  KOKKOS_INLINE_FUNCTION Piece piece(const SliceLayout& slices, int slice, int index) const {
    const int rest = vectors_in(slices, slice) - index * PieceVectors;
    return {slice * slices.slice_vectors + index * PieceVectors, count(slices, index, rest)};
  }

  /// Vectors of a piece, where `rest` vectors of the slice are left from its first on.
  KOKKOS_INLINE_FUNCTION static int count(const SliceLayout& slices, int index, int rest) {
    if (rest < 0) return 0;
    return index + 1 == slices.pieces ? rest : smaller(rest, PieceVectors);
  }

  /// The column in lane 0 of a vector; negative by the phase in the first vector.
  KOKKOS_INLINE_FUNCTION int column_of(int vector) const { return vector * Columns - phase; }

  /// Columns [first_column, end_column) of the row lie in the piece.
  KOKKOS_INLINE_FUNCTION int first_column(const Piece& piece) const {
    const int column = column_of(piece.first);
    return column < 0 ? 0 : column;
  }
  KOKKOS_INLINE_FUNCTION int end_column(const Piece& piece) const {
    return smaller(column_of(piece.first + piece.count), columns);
  }

  /// Whether the row's first or last vector holds columns of a neighbouring row.
  KOKKOS_INLINE_FUNCTION bool is_ragged() const { return phase != 0 || columns % Columns != 0; }

  /// Whether the piece holds columns of a neighbouring row.
  KOKKOS_INLINE_FUNCTION bool is_ragged(const Piece& piece) const {
    return column_of(piece.first) < 0 || column_of(piece.first + piece.count) > columns;
  }

 private:
  KOKKOS_INLINE_FUNCTION static int smaller(int a, int b) { return a < b ? a : b; }
};

/// A block's slice of one row, as its producer leaves it for the consumers. Most pieces are ordinary: full, with no
/// other columns, and streams alike; there kernels count instructions.
struct alignas(16) SliceOfRow {
  static constexpr std::uint32_t ragged = 1;   ///< the ends of the row share vectors with its neighbours
  static constexpr std::uint32_t shifted = 2;  ///< the teacher starts at another offset within granules
  static constexpr std::uint32_t moved = 4;    ///< the gradient does

  std::uint16_t odd;    ///< a bit for each of these
  std::uint16_t phase;  ///< of the row: see RowLayout
  int first_column;     ///< in lane 0 of the first vector
  int vectors;          ///< negative: there are no more rows
  /// The pieces that are ordinary: the last one but for what it has beyond a full one, its tail.
  std::uint16_t ordinary_begin, ordinary_end;

  KOKKOS_INLINE_FUNCTION bool exists() const { return vectors >= 0; }
  /// As those see it who have nothing of the first vector, and so of no column before the row.
  KOKKOS_INLINE_FUNCTION SliceOfRow without_first_vector() const {
    SliceOfRow slice = *this;
    if (ordinary_end > 0) slice.ordinary_begin = 0;
    return slice;
  }
  /// Vectors of the last piece that are not part of the ordinary one.
  KOKKOS_INLINE_FUNCTION int tail(int pieces, int piece_vectors) const {
    return ordinary_end == pieces ? vectors - pieces * piece_vectors : 0;
  }
  /// Vectors of a piece, the tail apart: it is the one after the last.
  KOKKOS_INLINE_FUNCTION int count(const SliceLayout& slices, int piece, int piece_vectors) const {
    const int rest = vectors - piece * piece_vectors;
    if (rest < 0) return 0;
    const bool takes_all = piece + 1 == slices.pieces && ordinary_end != slices.pieces;
    return takes_all || rest < piece_vectors ? rest : piece_vectors;
  }
  /// From a piece on: the first that is not ordinary, `end` at most.
  KOKKOS_INLINE_FUNCTION int ordinary_until(int piece, int end) const {
    const int stop = ordinary_end < end ? ordinary_end : end;
    return piece < ordinary_begin || piece > stop ? piece : stop;
  }
};

/// What a block's slice of a row that lies so is like. `oddity`: `shifted` and `moved`, where they are so.
template <int Columns, int PieceVectors>
KOKKOS_INLINE_FUNCTION SliceOfRow slice_of_row(const RowLayout<Columns, PieceVectors>& row, std::uint32_t oddity,
                                               const SliceLayout& slices, int rank) {
  const int vectors = row.vectors_in(slices, rank), full = vectors / PieceVectors;
  const int first = row.column_of(rank * slices.slice_vectors);
  const bool shares_its_end = first + vectors * Columns > row.columns;
  const bool is_cut_off = shares_its_end && vectors == slices.pieces * PieceVectors;
  const int begin = first < 0 ? 1 : 0, end = (full < slices.pieces ? full : slices.pieces) - (is_cut_off ? 1 : 0);
  const bool has_ordinary = begin < end && (oddity & (SliceOfRow::shifted | SliceOfRow::moved)) == 0;
  SliceOfRow slice;
  slice.odd = static_cast<std::uint16_t>(oddity | (row.is_ragged() ? SliceOfRow::ragged : 0));
  slice.phase = static_cast<std::uint16_t>(row.phase);
  slice.first_column = first;
  slice.vectors = vectors;
  slice.ordinary_begin = static_cast<std::uint16_t>(begin);
  slice.ordinary_end = static_cast<std::uint16_t>(has_ordinary ? end : 0);
  return slice;
}

/// The most vectors that a row of so many columns touches: 7 columns of the phase more where rows may start anywhere.
template <int Columns>
constexpr int most_vectors(int columns, bool rows_are_aligned) {
  return (columns + (rows_are_aligned ? 0 : Columns - 1) + Columns - 1) / Columns;
}

}  // namespace vocabloss::Impl

#endif
