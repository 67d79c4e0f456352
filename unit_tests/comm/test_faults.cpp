// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Faults that others had with a shared vocabulary, one test each.

#include <gtest/gtest.h>
#include <vocabloss/error.hpp>

#include <cmath>
#include <string>

#include "comm/support/shared.hpp"
#include "support/compare.hpp"

namespace {

using namespace test;

const SharedRequest allgather{.path = Path::team, .exchange = Exchange::allgather};
const SharedRequest two_allreduce{.path = Path::team, .exchange = Exchange::two_allreduce};

int ranks() { return size_of(MPI_COMM_WORLD); }

/// Logits that were gathered already, given as if they were this rank's shard: refused on every rank, not summed twice.
TEST(Faults, A46_GatheredLogitsAreNotAShard) {
  if (ranks() == 1) GTEST_SKIP() << "needs ranks";
  const LossEntry& loss = loss_named("cross_entropy");
  const Call call = ordinary_call(loss, 2, 8);
  Mpi mpi = Mpi::duplicate(MPI_COMM_WORLD);
  try {
    shared_named(loss.name).run(mpi, call, VocabPartition::whole(8), allgather);
    ADD_FAILURE() << "not refused";
  } catch (const vocabloss::InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("not gathered logits"), std::string::npos) << error.what();
  }
  try {
    shared_named(loss.name).run(mpi, call, VocabPartition::even(8, ranks(), rank_in(MPI_COMM_WORLD)), allgather);
    ADD_FAILURE() << "not refused";
  } catch (const vocabloss::InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("columns"), std::string::npos) << error.what();
  }
}

TEST(Faults, A47_VocabularyThatDoesNotDivide) {
  const LossEntry& label = loss_named("cross_entropy");
  const Call in_float = ordinary_call(label, 2, 50257);
  // In double: where one column has nearly all of p, float's rounding of log p - log q is all that is left of its
  // gradient.
  const LossEntry& divergence = loss_named("reverse_kl");
  Call in_double = ordinary_call(divergence, 2, 50257);
  in_double.store_as(DataType::fp64);
  for (const SharedRequest& request : {allgather, two_allreduce}) {
    expect_right_values(MPI_COMM_WORLD, label, in_float, even_cut(50257, ranks()), request);
    expect_right_values(MPI_COMM_WORLD, divergence, in_double, even_cut(50257, ranks()), request);
  }
}

TEST(Faults, A48_TinyAndEmptyShards) {
  if (ranks() != 4) GTEST_SKIP() << "four ranks";
  for (const LossEntry& loss : all_losses()) {
    for (const Cut& cut : {Cut{3, 3, 2, 1}, Cut{4, 4, 1, 0}, Cut{0, 0, 9, 0}}) {
      for (const SharedRequest& request : {allgather, two_allreduce}) {
        expect_right_values(MPI_COMM_WORLD, loss, ordinary_call(loss, 4, 9), cut, request);
      }
    }
  }
}

/// Each rank's gradient is g (p - onehot) of its own columns, with the softmax and the loss of all.
TEST(Faults, A51_GradientOfRanksThatDoNotOwnTheLabel) {
  const std::int64_t vocab = 16;
  const LossEntry& loss = loss_named("cross_entropy");
  Call call = ordinary_call(loss, 3, vocab);
  call.store_as(DataType::fp64);
  call.upstream_scalar[0] = 3;
  call.labels = {0, vocab - 1, vocab / 2};
  const VocabPartition partition = VocabPartition::even(vocab, ranks(), rank_in(MPI_COMM_WORLD));
  for (const SharedRequest& request : {allgather, two_allreduce}) {
    Mpi mpi = Mpi::duplicate(MPI_COMM_WORLD);
    const Outputs actual = shared_named(loss.name).run(mpi, shard_of(call, partition), partition, request);
    for (std::int64_t i = 0; i < call.rows; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < vocab; ++j) sum += std::exp(call.x[i * vocab + j]);
      for (std::int64_t j = 0; j < partition.columns; ++j) {
        const std::int64_t column = partition.first + j;
        const double p = std::exp(call.x[i * vocab + column]) / sum;
        EXPECT_TRUE(
            near(actual.gradient[i * partition.columns + j], 3 * (p - (column == call.labels[i] ? 1 : 0)), 1e-12));
      }
    }
  }
  const LossEntry& divergence = loss_named("reverse_kl");  // its gradient needs the loss of the whole row
  expect_right_values(MPI_COMM_WORLD, divergence, ordinary_call(divergence, 3, vocab), even_cut(vocab, ranks()),
                      allgather);
}

/// Two groups of ranks, each with a vocabulary and data of its own, at the same time.
TEST(Faults, A52_TheCommunicatorIsTheCallers) {
  if (ranks() != 4) GTEST_SKIP() << "four ranks";
  const int group = rank_in(MPI_COMM_WORLD) / 2;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, group, 0, &half);
  const LossEntry& loss = loss_named(group == 0 ? "reverse_kl" : "cross_entropy");
  const std::int64_t vocab = group == 0 ? 31 : 18;
  for (const SharedRequest& request : {allgather, two_allreduce}) {
    expect_right_values(half, loss, ordinary_call(loss, group == 0 ? 5 : 3, vocab, 20 + group), even_cut(vocab, 2),
                        request);
  }
  MPI_Comm_free(&half);
}

/// Whatever the data says, ranks make the same exchanges: rows all masked or ignored, shards of minus infinity.
TEST(Faults, A53_NothingValidStillExchanges) {
  const LossEntry& loss = loss_named("cross_entropy");
  Call ignored = ordinary_call(loss, 4, 12);
  ignored.labels.assign(4, -100);
  Call masked = ordinary_call(loss, 4, 12);
  masked.mask.assign(4, 0);
  Call invalid = ordinary_call(loss, 4, 12);
  invalid.labels = {12, -1, 3, 1000000};
  Call nothing = ordinary_call(loss, 4, 12);
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 6; ++j) nothing.x[i * 12 + j] = -infinity;
  }
  nothing.labels = {6, 7, 8, 0};
  for (const Call& call : {ignored, masked, invalid, nothing, ordinary_call(loss, 4, 12)}) {
    for (const SharedRequest& request : {allgather, two_allreduce}) {
      expect_right_values(MPI_COMM_WORLD, loss, call, even_cut(12, ranks()), request);
    }
  }
}

}  // namespace
