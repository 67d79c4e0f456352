// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_VIEW_CHECKS_HPP
#define VOCABLOSS_IMPL_VIEW_CHECKS_HPP

/// \file
/// \brief From a View to its pointer, extents and strides, with what is wrong about it said in words.

#include <vocabloss/error.hpp>
#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string>
#include <type_traits>

namespace vocabloss::Impl {

/// Column indices are 32-bit inside a row, with room for the last pack.
inline constexpr std::int64_t most_columns = 2147483647;

template <class T>
struct Storage {
  using type = T;
};
#if defined(__CUDACC__)
template <>
struct Storage<__nv_bfloat16> {
  using type = bfloat16;
};
template <>
struct Storage<__half> {
  using type = float16;
};
#endif
#if defined(KOKKOS_ENABLE_CUDA)
template <>
struct Storage<Kokkos::Experimental::bhalf_t> {
  using type = bfloat16;
};
template <>
struct Storage<Kokkos::Experimental::half_t> {
  using type = float16;
};
#endif

/// The library's storage type for a View's values.
template <class View>
using StorageOf = typename Storage<typename View::non_const_value_type>::type;

template <class Exec, class View>
constexpr void check_memory() {
  static_assert(Kokkos::is_view_v<View>, "a Kokkos::View is needed");
  static_assert(Kokkos::SpaceAccessibility<Exec, typename View::memory_space>::accessible,
                "this View's memory space is not accessible from the Batch's execution space");
}

/// What is known of one View. An unset one (no View was given) is null and passes every check.
struct ViewFacts {
  const char* name = "";
  bool is_set = false;
  void* data = nullptr;
  DataType type = DataType::fp32;
  int bytes = 0;  ///< of a value
  std::int64_t extent[2] = {0, 1};
  std::int64_t stride[2] = {1, 1};

  template <class T>
  PerRow<T> per_row() const {
    return {static_cast<const T*>(data), stride[0]};
  }

  std::string shape() const { return "[" + std::to_string(extent[0]) + ", " + std::to_string(extent[1]) + "]"; }

  void expect_same_shape(const ViewFacts& other) const {
    expects(!is_set || (extent[0] == other.extent[0] && extent[1] == other.extent[1]), [&] {
      return std::string(name) + " has shape " + shape() + " but " + other.name + " has " + other.shape() +
             ": they must be the same";
    });
  }
  void expect_rows(std::int64_t rows) const {
    expects(!is_set || extent[0] == rows, [&] {
      return std::string(name) + " has " + std::to_string(extent[0]) + " rows but logits have " + std::to_string(rows) +
             ": one value per row is needed";
    });
  }

  bool is_empty() const { return !is_set || extent[0] == 0 || extent[1] == 0; }
  const char* begin() const { return static_cast<const char*>(data); }
  const char* end() const { return begin() + ((extent[0] - 1) * stride[0] + (extent[1] - 1) * stride[1] + 1) * bytes; }
  bool is_same_memory(const ViewFacts& other) const {
    return !is_empty() && !other.is_empty() && data == other.data && type == other.type && stride[0] == other.stride[0];
  }
  /// Rows of two Views may interleave (columns of one wide buffer): that is no overlap when the strides agree.
  bool overlaps(const ViewFacts& other) const {
    if (is_empty() || other.is_empty() || begin() >= other.end() || other.begin() >= end()) return false;
    const std::int64_t pitch = stride[0] * bytes;
    if (pitch != other.stride[0] * other.bytes || pitch <= 0 || extent[0] == 1) return true;
    std::int64_t apart = (other.begin() - begin()) % pitch;
    if (apart < 0) apart += pitch;
    return apart < extent[1] * bytes || apart + other.extent[1] * other.bytes > pitch;
  }
  void expect_apart_from(const ViewFacts& other) const {
    expects(!overlaps(other), [&] {
      return std::string(name) + " overlaps " + other.name +
             " in memory: give it memory of its own (only the gradient may be in place, over the logits exactly)";
    });
  }
};

template <class Exec, class View>
ViewFacts matrix(const char* name, const View& view) {
  check_memory<Exec, View>();
  static_assert(View::rank == 2, "a View of rank 2 [rows, columns] is needed");
  using T = StorageOf<View>;
  ViewFacts facts{name, true, const_cast<void*>(static_cast<const void*>(view.data())), Precision<T>::type, sizeof(T)};
  for (int d = 0; d < 2; ++d) {
    facts.extent[d] = static_cast<std::int64_t>(view.extent(d));
    facts.stride[d] = static_cast<std::int64_t>(view.stride(d));
  }
  if (facts.is_empty()) return facts;
  expects(facts.stride[1] == 1 || facts.extent[1] == 1, [&] {
    return std::string(name) + " has column stride " + std::to_string(facts.stride[1]) +
           ": the columns of a row must be contiguous (use Kokkos::LayoutRight, or copy)";
  });
  expects(facts.stride[0] >= facts.extent[1] || facts.extent[0] == 1, [&] {
    return std::string(name) + " has row stride " + std::to_string(facts.stride[0]) + " but " +
           std::to_string(facts.extent[1]) + " columns: rows overlap";
  });
  facts.stride[1] = 1;
  return facts;
}

template <class Exec, class View>
ViewFacts vector(const char* name, const View& view) {
  check_memory<Exec, View>();
  static_assert(View::rank == 1, "a View of rank 1 [rows] is needed");
  ViewFacts facts;
  facts.name = name;
  facts.is_set = true;
  facts.data = const_cast<void*>(static_cast<const void*>(view.data()));
  facts.bytes = sizeof(typename View::value_type);
  facts.extent[0] = static_cast<std::int64_t>(view.extent(0));
  facts.stride[0] = static_cast<std::int64_t>(view.stride(0));
  return facts;
}

}  // namespace vocabloss::Impl

#endif
