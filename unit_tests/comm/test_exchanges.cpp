// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// A shared vocabulary gives what one rank gives: every loss, every exchange, every cut, with all that a call can carry.

#include <gtest/gtest.h>

#include <string>

#include "comm/support/shared.hpp"
#include "support/compare.hpp"

namespace {

using namespace test;

/// What every test asks for; one rank exchanges nothing.
const std::vector<SharedRequest>& requests() {
  static const std::vector<SharedRequest> one_rank = {{.path = Path::team}};
  static const std::vector<SharedRequest> shared = {{.path = Path::team, .exchange = Exchange::allgather},
                                                    {.path = Path::team, .exchange = Exchange::two_allreduce},
                                                    {.path = Path::naive, .exchange = Exchange::two_allreduce},
                                                    {.path = Path::gather}};
  return size_of(MPI_COMM_WORLD) == 1 ? one_rank : shared;
}

class Exchanges : public ::testing::TestWithParam<const char*> {
 protected:
  const LossEntry& loss() const { return loss_named(GetParam()); }
  static int ranks() { return size_of(MPI_COMM_WORLD); }
  void expect_all(const Call& call, const std::vector<Cut>& cuts) const {
    for (const Cut& cut : cuts) {
      for (const SharedRequest& request : requests()) {
        expect_right_values(MPI_COMM_WORLD, loss(), call, cut, request);
      }
    }
  }
};

TEST_P(Exchanges, EveryCutInFloat) { expect_all(ordinary_call(loss(), 5, 67), cuts_of(67, ranks())); }

TEST_P(Exchanges, EveryCutInDouble) {
  Call call = ordinary_call(loss(), 4, 41, 3);
  call.store_as(DataType::fp64);
  expect_all(call, cuts_of(41, ranks()));
}

TEST_P(Exchanges, HalfStorageWithFloatTeacherAndGradient) {
  Call call = ordinary_call(loss(), 3, 130, 5);
  call.logits = DataType::bf16;
  expect_all(call, {even_cut(130, ranks())});
  call.store_as(DataType::bf16);
  expect_all(call, {even_cut(130, ranks())});
}

TEST_P(Exchanges, EverySequence) {
  Call call = ordinary_call(loss(), 4, 37, 7);
  for (const Sequence sequence :
       {Sequence::forward, Sequence::forward_then_backward, Sequence::forward_backward_twice}) {
    call.sequence = sequence;
    expect_all(call, {even_cut(37, ranks())});
  }
}

TEST_P(Exchanges, BlocksOfRows) {
  Call call = ordinary_call(loss(), 7, 50, 9);
  for (const std::int64_t block_rows : {1, 2, 7, 100}) {
    for (SharedRequest request : requests()) {
      request.block_rows = block_rows;
      expect_right_values(MPI_COMM_WORLD, loss(), call, even_cut(50, ranks()), request);
    }
  }
}

TEST_P(Exchanges, MasksWeightsUpstreamAndStrides) {
  Call call = ordinary_call(loss(), 6, 33, 11);
  call.mask = {1, 0, 1, 1, 0, 1};
  call.row_weights = {1, 2, 0.5, 0, 3, 1};
  for (int k = 0; k < loss().outputs; ++k) call.upstream[k] = {0.5, 1, -2, 1, 1, 3};
  call.divisor = 4;
  call.padding = 3;
  call.vector_stride = 2;
  expect_all(call, {even_cut(33, ranks())});
  call.gradient_before.assign(6 * 33, 0.25);
  expect_all(call, {even_cut(33, ranks())});
}

TEST_P(Exchanges, ScalesAndTemperature) {
  Call call = ordinary_call(loss(), 3, 29, 13);
  call.options.logit_scale = 0.75;
  call.options.teacher_scale = 1.5;
  call.options.temperature = 2;
  call.options.temperature_squared = true;
  expect_all(call, {even_cut(29, ranks())});
}

/// Rows that are NaN or plus infinity somewhere, have no finite logit, or whole shards of minus infinity: what one rank
/// makes of them, all make.
TEST_P(Exchanges, InfinitiesAndNan) {
  const std::int64_t vocab = 24;
  Call call = ordinary_call(loss(), 8, vocab, 15);
  const auto fill = [&](std::vector<double>& stream, int row, std::int64_t first, std::int64_t end, double value) {
    if (stream.empty()) return;
    for (std::int64_t j = first; j < end; ++j) stream[row * vocab + j] = value;
  };
  fill(call.x, 0, 3, 4, not_a_number);
  fill(call.x, 1, vocab - 1, vocab, infinity);
  fill(call.x, 2, 0, vocab, -infinity);
  fill(call.x, 3, 0, vocab / 2, -infinity);  // a shard of nothing
  fill(call.x, 4, vocab / 2, vocab, -infinity);
  if (loss().teacher_is_logits) {
    fill(call.t, 4, 0, vocab / 2, -infinity);  // the student's and the teacher's shards lie apart
    fill(call.t, 5, 0, vocab / 2, -infinity);
    fill(call.t, 6, 1, 2, not_a_number);
  }
  expect_all(call, {even_cut(vocab, ranks())});
}

TEST_P(Exchanges, ZeroRows) {
  Call call = ordinary_call(loss(), 0, 20);
  if (loss().streams == 2) call.t = {0};  // there is a teacher, of no rows
  expect_all(call, {even_cut(20, ranks())});
}

INSTANTIATE_TEST_SUITE_P(All, Exchanges,
                         ::testing::Values("cross_entropy", "log_prob", "soft_cross_entropy",
                                           "soft_cross_entropy_probabilities", "forward_kl", "reverse_kl", "jsd",
                                           "z_loss", "entropy", "log_prob_entropy"),
                         [](const auto& info) { return std::string(info.param); });

/// JSD at the ends is another loss, with another number of rounds.
TEST(ExchangesOfJsd, BetaAtTheEnds) {
  const LossEntry& loss = loss_named("jsd");
  Call call = ordinary_call(loss, 3, 25, 17);
  for (const double beta : {0.0, 1.0, 0.25}) {
    call.options.jsd_beta = beta;
    for (const SharedRequest& request : requests()) {
      expect_right_values(MPI_COMM_WORLD, loss, call, even_cut(25, size_of(MPI_COMM_WORLD)), request);
    }
  }
}

}  // namespace
