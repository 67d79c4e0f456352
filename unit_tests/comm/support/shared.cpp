// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#include "comm/support/shared.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "support/check.hpp"

namespace test {

extern const SharedEntry shared_entry_of_CrossEntropy, shared_entry_of_LogProb, shared_entry_of_SoftCrossEntropy,
    shared_entry_of_SoftCrossEntropyProbabilities, shared_entry_of_ForwardKl, shared_entry_of_ReverseKl,
    shared_entry_of_Jsd, shared_entry_of_ZLoss, shared_entry_of_Entropy, shared_entry_of_LogProbEntropy;

const SharedEntry& shared_named(const std::string& name) {
  for (const SharedEntry* entry :
       {&shared_entry_of_CrossEntropy, &shared_entry_of_LogProb, &shared_entry_of_SoftCrossEntropy,
        &shared_entry_of_SoftCrossEntropyProbabilities, &shared_entry_of_ForwardKl, &shared_entry_of_ReverseKl,
        &shared_entry_of_Jsd, &shared_entry_of_ZLoss, &shared_entry_of_Entropy, &shared_entry_of_LogProbEntropy}) {
    if (entry->name == name) return *entry;
  }
  throw std::invalid_argument("no loss is called " + name);
}

Cut even_cut(std::int64_t vocab, int ranks) {
  Cut cut;
  for (int rank = 0; rank < ranks; ++rank) cut.push_back(VocabPartition::even(vocab, ranks, rank).columns);
  return cut;
}

std::vector<Cut> cuts_of(std::int64_t vocab, int ranks) {
  std::vector<Cut> cuts = {even_cut(vocab, ranks)};
  if (ranks == 1) return cuts;
  Cut all_on_last(ranks, 0), all_on_first(ranks, 0), one_column_first = even_cut(vocab - 1, ranks - 1), one_column_last;
  all_on_last.back() = vocab;
  all_on_first.front() = vocab;
  one_column_last = one_column_first;
  one_column_last.push_back(1);
  one_column_first.insert(one_column_first.begin(), 1);
  cuts.insert(cuts.end(), {all_on_last, all_on_first, one_column_first, one_column_last});
  if (ranks > 2) {
    Cut empty_inside = even_cut(vocab, ranks - 1);
    empty_inside.insert(empty_inside.begin() + 1, 0);
    cuts.push_back(empty_inside);
  }
  return cuts;
}

VocabPartition partition_of(const Cut& cut, int rank) {
  VocabPartition partition;
  for (std::size_t r = 0; r < cut.size(); ++r) {
    if (static_cast<int>(r) < rank) partition.first += cut[r];
    partition.vocab += cut[r];
  }
  partition.columns = cut[rank];
  return partition;
}

std::string describe(const Cut& cut) {
  std::string text;
  for (const std::int64_t columns : cut) text += (text.empty() ? "" : "+") + std::to_string(columns);
  return text;
}

namespace {

std::vector<double> columns_of(const std::vector<double>& whole, std::int64_t rows, const VocabPartition& partition) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < rows && !whole.empty(); ++i) {
    const auto from = whole.begin() + i * partition.vocab + partition.first;
    result.insert(result.end(), from, from + partition.columns);
  }
  return result;
}

}  // namespace

Call shard_of(const Call& whole, const VocabPartition& partition) {
  Call shard = whole;
  shard.columns = partition.columns;
  shard.x = columns_of(whole.x, whole.rows, partition);
  shard.t = columns_of(whole.t, whole.rows, partition);
  shard.gradient_before = columns_of(whole.gradient_before, whole.rows, partition);
  if (!whole.t.empty() && shard.t.empty()) shard.t.push_back(0);  // there is a teacher, of no columns
  return shard;
}

Outputs whole_of(MPI_Comm comm, const Outputs& shard, const Call& whole, const Cut& cut) {
  Outputs result = shard;
  const int has_gradient = shard.gradient.empty() ? 0 : 1;
  int any = 0;
  MPI_Allreduce(&has_gradient, &any, 1, MPI_INT, MPI_MAX, comm);
  if (!any) return result;
  std::vector<int> counts, starts;
  int total = 0;
  for (const std::int64_t columns : cut) {
    counts.push_back(static_cast<int>(whole.rows * columns));
    starts.push_back(total);
    total += counts.back();
  }
  std::vector<double> pieces(total);
  MPI_Allgatherv(shard.gradient.data(), counts[rank_in(comm)], MPI_DOUBLE, pieces.data(), counts.data(), starts.data(),
                 MPI_DOUBLE, comm);
  result.gradient.assign(whole.rows * whole.columns, 0);
  for (int rank = 0; rank < static_cast<int>(cut.size()); ++rank) {
    const VocabPartition partition = partition_of(cut, rank);
    for (std::int64_t i = 0; i < whole.rows; ++i) {
      std::copy_n(pieces.begin() + starts[rank] + i * partition.columns, partition.columns,
                  result.gradient.begin() + i * whole.columns + partition.first);
    }
  }
  return result;
}

bool same_on_all_ranks(MPI_Comm comm, const Outputs& outputs) {
  std::vector<double> mine;
  for (int k = 0; k < 2; ++k) {
    mine.insert(mine.end(), outputs.losses[k].begin(), outputs.losses[k].end());
    mine.push_back(outputs.sum[k]);
  }
  mine.push_back(static_cast<double>(outputs.valid_rows));
  mine.push_back(static_cast<double>(outputs.invalid_labels));
  for (double& value : mine) {
    if (value != value) value = std::numeric_limits<double>::quiet_NaN();  // NaN is NaN, whatever its payload
  }
  std::vector<double> first = mine;
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_DOUBLE, 0, comm);
  int same = std::memcmp(first.data(), mine.data(), mine.size() * sizeof(double)) == 0;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_LAND, comm);
  return same != 0;
}

void expect_right_outputs(MPI_Comm comm, const LossEntry& loss, const Call& whole, const Cut& cut,
                          const Outputs& actual) {
  Outputs put_together = whole_of(comm, actual, whole, cut);
  if (whole.sequence == Sequence::forward) put_together.gradient.clear();  // none is asked for
  expect_agree(loss, whole, put_together, loss.expected(whole));
  EXPECT_TRUE(same_on_all_ranks(comm, actual));
}

void expect_right_values(MPI_Comm comm, const LossEntry& loss, const Call& whole, const Cut& cut,
                         const SharedRequest& request) {
  const VocabPartition partition = partition_of(cut, rank_in(comm));
  SCOPED_TRACE(describe(loss, whole) + ", cut " + describe(cut) + ", " + std::string(name_of(request.path)) + ", " +
               std::string(name_of(request.exchange)));
  const Call shard = shard_of(whole, partition);
  Mpi mpi = Mpi::duplicate(comm);
  expect_right_outputs(comm, loss, whole, cut, shared_named(loss.name).run(mpi, shard, partition, request));
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  return size;
}

}  // namespace test
