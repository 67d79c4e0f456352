// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_TUNING_RECORD_HPP
#define VOCABLOSS_TUNING_RECORD_HPP

/// \file
/// \brief What a tuner found, kept in a JSON file so that a later run need not time again. Component `tuner`.
///
///     auto record = TuningRecord::read("tuning.json");   // empty if there is no such file
///     tune<loss::ReverseKl>(exec, batch, Pass::forward_backward, {}, {.record = &record});
///     record.write("tuning.json");
///
/// Read next: tuning/tune.hpp.

#include <vocabloss/tuning/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vocabloss {

/// A file that is no record, or another version's, or that cannot be read or written.
class TuningRecordError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Everything that a choice depends on, beside the library's version, which is the whole file's.
struct TuningKey {
  std::string card;  ///< device, or processor and its threads
  std::string loss;  ///< the algebra's name with its type; a Jsd at beta 0 or 1 is the loss that it is then
  Pass pass = Pass::forward_backward;
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  std::int64_t columns = 0;  ///< of the largest shard
  int ranks = 1;
  std::string communicator{};  ///< what ranks talk through, as plans print it; empty for one rank
  std::string exchange{};      ///< the one that was asked for, "any", or empty for one rank
  DataType logits = DataType::fp32;
  std::optional<DataType> teacher{};
  std::optional<DataType> gradient{};
  bool accumulate = false;
  bool in_place = false;
  bool aligned = true;  ///< all rows of all streams begin at multiples of 16 bytes

  bool operator==(const TuningKey&) const = default;
};

/// Of the timed calls; over ranks, each of the slowest rank.
struct TunedTime {
  double median_ms = 0, min_ms = 0, max_ms = 0;

  bool operator==(const TunedTime&) const = default;
};

/// The fastest candidate. Of the request path, block cap, exchange, rows of a block and variant are kept.
struct TunedChoice {
  PlanRequest request{};
  std::string plan{};  ///< as it printed itself
  TunedTime time{};
};

class TuningRecord {
 public:
  /// An empty one.
  TuningRecord() = default;

  /// What `file` holds; an empty record if it does not exist.
  /// \throws TuningRecordError  unreadable, malformed, or of another version of the format or the library: with the
  /// file's name, both values and the remedy
  static TuningRecord read(const std::string& file);

  /// Writes beside `file` and renames, so that it is whole or as it was. What others wrote since is lost.
  /// \throws TuningRecordError
  void write(const std::string& file) const;

  std::optional<TunedChoice> find(const TuningKey& key) const;
  /// Adds, or takes the place of an older entry.
  void add(const TuningKey& key, const TunedChoice& choice);
  std::size_t size() const { return entries_.size(); }

 private:
  std::vector<std::pair<TuningKey, TunedChoice>> entries_;
};

namespace Impl {

/// "Intel(R) Xeon(R) ..., 8 threads".
std::string processor(int threads);
/// A type's name as the language writes it.
std::string demangled(const char* name);

}  // namespace Impl

}  // namespace vocabloss

#endif
