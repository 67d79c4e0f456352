// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef ENTROPY_SWEEP_STREAMS_HPP
#define ENTROPY_SWEEP_STREAMS_HPP

/// \file
/// The streams of a problem in the memory of the execution space: logits, teacher, labels, mask, gradient; synthetic or
/// from files; of matrices the columns of this rank. Allocated when first asked for, kept for the cases that follow.

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>
#include <vocabloss/types.hpp>

#include "input.hpp"
#include "problem.hpp"
#include "synthetic.hpp"

namespace entropy_sweep {

/// A double as a stored value. Half types take it by way of float, as they are accumulated.
template <class T>
T stored(double value) {
  return vocabloss::narrow<T>(static_cast<vocabloss::Accumulate<T>>(value));
}

template <class Logit, class Exec = Kokkos::DefaultExecutionSpace>
class Streams {
 public:
  template <class T>
  using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, Exec>;
  template <class T>
  using Vector = Kokkos::View<T*, Exec>;

  Streams(const Exec& exec, const ProblemSpec& spec) : exec_(exec), spec_(spec) {}

  const Matrix<Logit>& logits() {
    if (!logits_.is_allocated()) logits_ = made<Logit>("entropy_sweep::logits", Sequence::logits);
    return logits_;
  }
  const Matrix<Logit>& teacher() {
    if (!teacher_.is_allocated()) teacher_ = made<Logit>("entropy_sweep::teacher", Sequence::teacher);
    return teacher_;
  }
  /// The teacher of a file that stores it more finely than the logits.
  const Matrix<float>& float_teacher() {
    if (!float_teacher_.is_allocated()) {
      float_teacher_ = made<float>("entropy_sweep::teacher", Sequence::teacher);
    }
    return float_teacher_;
  }
  const Matrix<Logit>& gradient() {
    if (!gradient_.is_allocated()) gradient_ = empty<Logit>("entropy_sweep::gradient");
    return gradient_;
  }
  /// What the logits are restored from after a case has written its gradient over them.
  const Matrix<Logit>& untouched() {
    if (!untouched_.is_allocated()) {
      untouched_ = empty<Logit>("entropy_sweep::untouched");
      Kokkos::deep_copy(exec_, untouched_, logits());
    }
    return untouched_;
  }
  void restore_logits() { Kokkos::deep_copy(exec_, logits_, untouched()); }

  const Vector<std::int64_t>& labels() {
    if (!labels_.is_allocated()) labels_ = copied<std::int64_t>("entropy_sweep::labels", labels_of(spec_));
    return labels_;
  }
  const Vector<std::uint8_t>& mask() {
    if (!mask_.is_allocated()) mask_ = copied<std::uint8_t>("entropy_sweep::mask", spec_.input->mask());
    return mask_;
  }

  /// One row of a matrix as doubles on the host.
  template <class T>
  std::vector<double> row(const Matrix<T>& matrix, std::int64_t i) const {
    const auto line = Kokkos::subview(matrix, i, Kokkos::ALL);
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, line);
    std::vector<double> values(host.extent(0));
    for (std::size_t j = 0; j < values.size(); ++j) values[j] = static_cast<double>(vocabloss::widen(host(j)));
    return values;
  }

  /// All bits set: NaN in every type, so that an element nobody writes is seen.
  template <class View>
  void fill_with_nan(const View& view) const {
    using T = typename View::non_const_value_type;
    T nan;
    std::memset(&nan, 0xff, sizeof nan);
    Kokkos::deep_copy(exec_, view, nan);
  }

 private:
  template <class T>
  Matrix<T> empty(const std::string& label) const {
    return Matrix<T>(Kokkos::view_alloc(exec_, Kokkos::WithoutInitializing, label), spec_.rows,
                     spec_.partition.columns);
  }

  template <class T>
  Matrix<T> made(const std::string& label, Sequence sequence) const {
    Matrix<T> matrix = empty<T>(label);
    if (spec_.input == nullptr) {
      generate(matrix, sequence);
      if (spec_.data == Data::peaked) raise_peaks(matrix, sequence);
    } else {
      copy_tensor(sequence == Sequence::logits ? spec_.input->student() : *spec_.input->teacher(), matrix);
    }
    exec_.fence("entropy_sweep::data");
    return matrix;
  }

 public:  // nvcc wants a function that holds a device lambda to be public
  template <class T>
  void generate(const Matrix<T>& matrix, Sequence sequence) const {
    // Numbers come in pairs of columns of the whole vocabulary; a shard may begin or end within one.
    const std::int64_t first = spec_.partition.first;
    const std::int64_t columns = spec_.partition.columns;
    const std::int64_t first_pair = first / 2;
    const std::int64_t pairs = columns > 0 ? (first + columns + 1) / 2 - first_pair : 0;
    const std::uint64_t seed = spec_.seed;
    const bool is_peaked = spec_.data == Data::peaked;
    using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for(
        "entropy_sweep::generate", Policy(exec_, 0, spec_.rows * pairs), KOKKOS_LAMBDA(const std::int64_t index) {
          const std::int64_t i = index / pairs;
          const std::int64_t pair = first_pair + index - i * pairs;
          const NormalPair values =
              is_peaked ? background_pair(seed, sequence, i, pair) : normal_pair(row_key(seed, sequence, i), pair);
          using Real = vocabloss::Accumulate<T>;
          const std::int64_t j = 2 * pair - first;
          if (j >= 0) matrix(i, j) = vocabloss::narrow<T>(static_cast<Real>(values.first));
          if (j + 1 < columns) matrix(i, j + 1) = vocabloss::narrow<T>(static_cast<Real>(values.second));
        });
  }

  template <class T>
  void raise_peaks(const Matrix<T>& matrix, Sequence sequence) const {
    const std::uint64_t seed = spec_.seed;
    const vocabloss::VocabPartition part = spec_.partition;
    using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for(
        "entropy_sweep::raise_peaks", Policy(exec_, 0, spec_.rows), KOKKOS_LAMBDA(const std::int64_t i) {
          const Peaks peaks = peaks_of(seed, sequence, i, part.vocab);
          using Real = vocabloss::Accumulate<T>;
          for (int k = peaks.count - 1; k >= 0; --k) {
            const std::int64_t j = peaks.column[k] - part.first;
            if (j >= 0 && j < part.columns) matrix(i, j) = vocabloss::narrow<T>(static_cast<Real>(peaks.logit[k]));
          }
        });
  }

 private:
  template <class T>
  void copy_tensor(const Tensor& tensor, const Matrix<T>& matrix) const {
    const auto host = Kokkos::create_mirror_view(matrix);
    const std::int64_t columns = spec_.partition.columns;
    for (std::int64_t i = 0; i < spec_.rows && columns > 0; ++i) {
      const std::int64_t first = i * spec_.vocab + spec_.partition.first;
      T* row = host.data() + i * columns;
      if (value_type_of(tensor.dtype) == type_of<T>()) {
        std::memcpy(row, tensor.bytes.data() + first * sizeof(T), columns * sizeof(T));
      } else {
        const std::vector<double> values = to_doubles(tensor, first, columns);
        std::transform(values.begin(), values.end(), row, stored<T>);
      }
    }
    Kokkos::deep_copy(exec_, matrix, host);
  }

  template <class T>
  Vector<T> copied(const std::string& label, const std::vector<T>& values) const {
    const Kokkos::View<const T*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>> host(values.data(),
                                                                                                  values.size());
    Vector<T> vector(Kokkos::view_alloc(exec_, Kokkos::WithoutInitializing, label), values.size());
    Kokkos::deep_copy(exec_, vector, host);
    exec_.fence("entropy_sweep::data");
    return vector;
  }

  template <class T>
  static constexpr ValueType type_of() {
    if constexpr (std::is_same_v<T, vocabloss::bfloat16>) return ValueType::bf16;
    if constexpr (std::is_same_v<T, vocabloss::float16>) return ValueType::fp16;
    if constexpr (std::is_same_v<T, float>) return ValueType::fp32;
    return ValueType::fp64;
  }

  Exec exec_;
  ProblemSpec spec_;
  Matrix<Logit> logits_, teacher_, gradient_, untouched_;
  Matrix<float> float_teacher_;
  Vector<std::int64_t> labels_;
  Vector<std::uint8_t> mask_;
};

}  // namespace entropy_sweep

#endif  // ENTROPY_SWEEP_STREAMS_HPP
