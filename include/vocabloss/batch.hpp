// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_BATCH_HPP
#define VOCABLOSS_BATCH_HPP

/// \file
/// \brief What one call reads and writes: Kokkos Views handed over by name, checked, and reduced to pointers.
///
///     vocabloss::Batch<vocabloss::bfloat16> batch;
///     batch.logits(x).teacher(t).losses(loss).gradient(dx);
///
/// Symbols: rows = tokens, columns = this rank's vocabulary entries, Real = float (double for double logits).
/// A Batch holds pointers, not Views: the Views must outlive the calls that use it. It is cheap to copy and to refill.
/// Read next: plan.hpp.

#include <vocabloss/comm/partition.hpp>
#include <vocabloss/error.hpp>
#include <vocabloss/impl/row_call.hpp>
#include <vocabloss/impl/view_checks.hpp>
#include <vocabloss/tuning/plan.hpp>
#include <vocabloss/types.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <optional>

namespace vocabloss {
namespace Impl {
template <class Logit, class Exec>
class PrivateBatch;  // impl/tuning/private_batch.hpp
}  // namespace Impl

/// Sums over the rows of a call, written on the device in a fixed order: the same bits for the same plan and inputs.
template <class Real>
struct Summary {
  Real sum[2];                  ///< of each output's losses, over the divisor; carries infinities and NaN
  std::int64_t valid_rows;      ///< rows neither masked nor ignored (poisoned rows are valid)
  std::int64_t invalid_labels;  ///< rows, not masked, whose label lies outside the vocabulary
};

/// \tparam Logit  `bfloat16`, `float16`, `float` or `double`: how the logits are stored
/// \tparam Exec   the execution space that will read and write the Views
template <class Logit, class Exec = Kokkos::DefaultExecutionSpace>
class Batch {
 public:
  using Real = Accumulate<Logit>;

  /// Logits, read. Shape [rows, columns]; any row stride >= columns; the columns of a row contiguous.
  /// \throws InvalidArgument on a column stride other than 1, or a row stride below the columns
  template <class View>
  Batch& logits(const View& view) {
    static_assert(std::is_same_v<Impl::StorageOf<View>, Logit>, "logits: the View's value type is not the Batch's");
    logits_ = Impl::matrix<Exec>("logits", view);
    return *this;
  }

  /// Second stream, read: teacher logits (or probabilities, for the loss that takes them). Shape and layout as
  /// `logits`; stored as the logits are or as float.
  template <class View>
  Batch& teacher(const View& view) {
    using T = Impl::StorageOf<View>;
    static_assert(std::is_same_v<T, Logit> || std::is_same_v<T, float>,
                  "teacher: stored as the logits are, or as float");
    teacher_ = Impl::matrix<Exec>("teacher", view);
    return *this;
  }

  /// Target column of each row in the whole vocabulary, read. Shape [rows], any stride; int32 or int64.
  /// A row whose label is `ignore_index` is masked. Any other label outside [0, vocab) poisons the row.
  template <class View>
  Batch& labels(const View& view, std::int64_t ignore_index = -100) {
    using T = typename View::non_const_value_type;
    static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "labels: int32 or int64");
    labels_ = Impl::vector<Exec>("labels", view);
    labels_are_wide_ = sizeof(T) == 8;
    ignore_index_ = ignore_index;
    return *this;
  }

  /// 0: the row does not count (loss 0, gradient 0, nothing of it is looked at). Shape [rows]; one-byte integers or
  /// bool.
  template <class View>
  Batch& mask(const View& view) {
    static_assert(std::is_integral_v<typename View::non_const_value_type> && sizeof(typename View::value_type) == 1,
                  "mask: bool or one-byte integers");
    mask_ = Impl::vector<Exec>("mask", view);
    return *this;
  }

  /// Multiplies each row's losses and gradient. Shape [rows] of Real. A zero weight does not hide NaN: a mask does.
  template <class View>
  Batch& row_weights(const View& view) {
    static_assert(std::is_same_v<typename View::non_const_value_type, Real>, "row_weights: values of type Real");
    row_weights_ = Impl::vector<Exec>("row_weights", view);
    return *this;
  }

  /// dL/dloss of each row (of its output `output`, for losses with two). Shape [rows] of Real, any stride, 0 included.
  template <class View>
  requires Kokkos::is_view_v<View> Batch& upstream(const View& view, int output = 0) {
    static_assert(std::is_same_v<typename View::non_const_value_type, Real>, "upstream: values of type Real");
    check_output(output);
    upstream_[output] = Impl::vector<Exec>("upstream", view);
    return *this;
  }
  /// The same for all rows; 1 unless set.
  Batch& upstream(double value, int output = 0) {
    check_output(output);
    upstream_[output] = {};
    upstream_scalar_[output] = static_cast<Real>(value);
    return *this;
  }

  /// Divides the summary's sums and the gradient, never the per-row losses. A mean over valid rows is the caller's
  /// divisor, so that it can be the global count. Positive and finite; 1 unless set.
  Batch& divisor(double value) {
    Impl::expects(value > 0 && value <= 1e30,
                  [&] { return "divisor must be positive and finite, got " + std::to_string(value); });
    divisor_ = value;
    return *this;
  }

  /// Per-row losses, written: weight * loss, 0 for masked rows, NaN for poisoned ones. Shape [rows] of Real. Optional.
  template <class View>
  Batch& losses(const View& view, int output = 0) {
    static_assert(std::is_same_v<typename View::value_type, Real>, "losses: non-const values of type Real");
    check_output(output);
    losses_[output] = Impl::vector<Exec>("losses", view);
    return *this;
  }

  /// d(sum of upstream * losses / divisor)/dlogits, written. Shape and layout as `logits`, stored as the logits are or
  /// as float. May be the logits' own View (in place); any other overlap with an input is refused.
  template <class View>
  Batch& gradient(const View& view) {
    return gradient_into(view, false);
  }
  /// The same, added to what the buffer holds (rounded once after the addition). Not in place.
  template <class View>
  Batch& accumulate_gradient(const View& view) {
    return gradient_into(view, true);
  }

  /// Row statistics for a later `backward`. Shape [rows, Plan::statistics_per_row], contiguous, of Real. Without it a
  /// plan keeps those of its last forward.
  template <class View>
  Batch& statistics(const View& view) {
    static_assert(std::is_same_v<typename View::value_type, Real>, "statistics: non-const values of type Real");
    statistics_ = Impl::matrix<Exec>("statistics", view);
    return *this;
  }

  /// Sums and counts over the rows, written. A rank-0 View of Summary<Real>. Optional.
  template <class View>
  Batch& summary(const View& view) {
    static_assert(std::is_same_v<typename View::value_type, Summary<Real>> && View::rank == 0,
                  "summary: a rank-0 View of Summary<Real>");
    Impl::check_memory<Exec, View>();
    summary_ = view.data();
    return *this;
  }

  /// The columns are a shard of a larger vocabulary. Without it they are all of it.
  Batch& partition(const VocabPartition& partition) {
    partition.validate();
    partition_ = partition;
    return *this;
  }

  /// What a plan is chosen for. \throws InvalidArgument where the Views do not fit each other
  Problem problem() const;

  /// \cond not API
  Impl::RowCall<Real> row_call() const;
  Summary<Real>* summary_data() const { return summary_; }
  double divisor_value() const { return divisor_; }
  const Impl::ViewFacts& statistics_facts() const { return statistics_; }
  /// \endcond

 private:
  friend Impl::PrivateBatch<Logit, Exec>;

  template <class View>
  Batch& gradient_into(const View& view, bool accumulate) {
    using T = Impl::StorageOf<View>;
    static_assert(!std::is_const_v<typename View::value_type>, "gradient: the View's values are const");
    static_assert(std::is_same_v<T, Logit> || std::is_same_v<T, float>,
                  "gradient: stored as the logits are, or as float");
    gradient_ = Impl::matrix<Exec>("gradient", view);
    accumulate_ = accumulate;
    return *this;
  }
  static void check_output(int output) {
    Impl::expects(output == 0 || output == 1, [&] { return "output must be 0 or 1, got " + std::to_string(output); });
  }

  Impl::ViewFacts logits_, teacher_, gradient_, statistics_;
  Impl::ViewFacts labels_, mask_, row_weights_, upstream_[2], losses_[2];
  bool labels_are_wide_ = false;
  bool accumulate_ = false;
  std::int64_t ignore_index_ = -100;
  Real upstream_scalar_[2] = {Real(1), Real(1)};
  double divisor_ = 1.0;
  Summary<Real>* summary_ = nullptr;
  std::optional<VocabPartition> partition_;
};

template <class Logit, class Exec>
Problem Batch<Logit, Exec>::problem() const {
  Impl::expects(logits_.is_set, [] { return std::string("logits are missing: call Batch::logits"); });
  const std::int64_t rows = logits_.extent[0];
  const std::int64_t columns = logits_.extent[1];
  const VocabPartition partition = partition_.value_or(VocabPartition::whole(columns));
  partition.validate();
  Impl::expects(columns == partition.columns, [&] {
    return "logits have " + std::to_string(columns) + " columns but the partition says " +
           std::to_string(partition.columns) + ": pass this rank's shard, not gathered logits";
  });
  Impl::expects(columns <= Impl::most_columns, [&] {
    return "logits have " + std::to_string(columns) + " columns, more than " + std::to_string(Impl::most_columns);
  });
  for (const auto* facts : {&teacher_, &gradient_}) facts->expect_same_shape(logits_);
  for (const auto* facts : {&labels_, &mask_, &row_weights_, &upstream_[0], &upstream_[1], &losses_[0], &losses_[1]}) {
    facts->expect_rows(rows);
  }
  const bool in_place = gradient_.is_same_memory(logits_);
  if (!in_place) gradient_.expect_apart_from(logits_);
  Impl::expects(!(in_place && accumulate_), [] {
    return std::string("gradient is accumulated into the logits' own memory: give it a buffer of its own");
  });
  for (const auto* facts : {&teacher_, &labels_, &mask_, &row_weights_, &upstream_[0], &upstream_[1], &losses_[0],
                            &losses_[1], &statistics_}) {
    gradient_.expect_apart_from(*facts);
  }
  Problem problem;
  problem.rows = rows;
  problem.partition = partition;
  problem.logits = Precision<Logit>::type;
  if (teacher_.is_set) problem.teacher = teacher_.type;
  if (gradient_.is_set) problem.gradient = gradient_.type;
  problem.accumulate = accumulate_;
  problem.in_place = in_place;
  return problem;
}

template <class Logit, class Exec>
Impl::RowCall<Accumulate<Logit>> Batch<Logit, Exec>::row_call() const {
  const Problem facts = problem();
  Impl::RowCall<Real> call;
  call.rows = facts.rows;
  call.columns = static_cast<int>(facts.partition.columns);
  call.first_column = facts.partition.first;
  call.vocab = facts.partition.vocab;
  call.logits = {logits_.data, logits_.type, logits_.stride[0]};
  if (teacher_.is_set) call.teacher = {teacher_.data, teacher_.type, teacher_.stride[0]};
  if (gradient_.is_set) call.gradient = {gradient_.data, gradient_.type, gradient_.stride[0], accumulate_};
  if (labels_.is_set) {
    if (labels_are_wide_) {
      call.labels64 = labels_.template per_row<std::int64_t>();
    } else {
      call.labels32 = labels_.template per_row<std::int32_t>();
    }
  }
  call.ignore_index = ignore_index_;
  call.mask = mask_.template per_row<std::uint8_t>();
  call.row_weights = row_weights_.template per_row<Real>();
  for (int output = 0; output < 2; ++output) {
    call.upstream[output] = upstream_[output].template per_row<Real>();
    call.upstream_scalar[output] = upstream_scalar_[output];
    call.losses[output] = static_cast<Real*>(losses_[output].data);
    call.losses_stride[output] = losses_[output].stride[0];
  }
  call.gradient_factor = static_cast<Real>(1.0 / divisor_);
  call.statistics = static_cast<Real*>(statistics_.data);
  return call;
}

}  // namespace vocabloss

#endif
