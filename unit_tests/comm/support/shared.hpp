// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_COMM_SHARED_HPP
#define VOCABLOSS_TEST_COMM_SHARED_HPP

/// \file
/// A call over a vocabulary that ranks share, as plain data: a Call of the whole vocabulary, cut into shards.

#include <vocabloss/comm/mpi.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "support/call.hpp"

namespace test {

using vocabloss::Exchange;
using vocabloss::VocabPartition;
using vocabloss::comm::Mpi;

struct SharedRequest {
  Path path = Path::automatic;
  Exchange exchange = Exchange::allgather;
  std::int64_t block_rows = 0;
  std::size_t memory_limit = 0;
  std::string variant{};
  std::chrono::milliseconds time_limit{20000};
};

/// How a vocabulary is cut: the columns of each rank, in order.
using Cut = std::vector<std::int64_t>;

Cut even_cut(std::int64_t vocab, int ranks);
/// Even and uneven cuts, one-column and empty shards at the front, in the middle and at the end.
std::vector<Cut> cuts_of(std::int64_t vocab, int ranks);
VocabPartition partition_of(const Cut& cut, int rank);
std::string describe(const Cut& cut);

/// The columns of one rank. Labels, mask and the like stay those of all.
Call shard_of(const Call& whole, const VocabPartition& partition);
/// The shards' gradients put together, on every rank: rounding errors are judged against whole rows. Collective.
Outputs whole_of(MPI_Comm comm, const Outputs& shard, const Call& whole, const Cut& cut);

struct SharedEntry {
  const char* name;
  /// Of this rank's shard; types fp32, fp64 and bf16. Throws what the plan throws.
  Outputs (*run)(Mpi& comm, const Call& shard, const VocabPartition& partition, const SharedRequest& request);
};
const SharedEntry& shared_named(const std::string& name);

/// Whether all ranks of `comm` hold the same losses, sums and counts, bit for bit.
bool same_on_all_ranks(MPI_Comm comm, const Outputs& outputs);

/// Compares what this rank's shard gave: values with the textbook's to the rounding of the type, losses bit for bit
/// between ranks. Collective.
void expect_right_outputs(MPI_Comm comm, const LossEntry& loss, const Call& whole, const Cut& cut,
                          const Outputs& actual);
/// The same once the shard has run with the others'. Collective.
void expect_right_values(MPI_Comm comm, const LossEntry& loss, const Call& whole, const Cut& cut,
                         const SharedRequest& request);

int rank_in(MPI_Comm comm);
int size_of(MPI_Comm comm);

}  // namespace test

#endif
