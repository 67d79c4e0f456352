// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// A loss of a user's own on the paths whose kernels live in headers: compiled here, found by the public Plan.

#include "collision_probability.hpp"
#include "plan_against_oracle.cuh"

namespace plan_contracts {

/// The textbook's formula.
row_check::RowLoss collision_probability(double sharpness) {
  row_check::RowLoss loss{};
  loss.name = "collision_probability";
  loss.options.logit_scale = sharpness;
  loss.streams = loss.rounds = loss.outputs = 1;
  loss.expected = [sharpness](const vocabloss::reference::RowInput& row) {
    const auto softmax = vocabloss::reference::softmax(row.x, sharpness);
    const std::vector<double> zeros(row.x.size());
    vocabloss::reference::RowOutput output{{0, 0}, zeros, zeros};
    for (const double p : softmax.p) output.losses[0] += p * p;
    for (std::size_t j = 0; j < row.x.size(); ++j) {
      output.gradient[j] = 2 * sharpness * softmax.p[j] * (softmax.p[j] - output.losses[0]);
      output.terms[j] = 2 * sharpness * softmax.p[j] * (softmax.p[j] + output.losses[0]);
    }
    return output;
  };
  return loss;
}

class OwnLoss : public ::testing::TestWithParam<Path> {};
INSTANTIATE_TEST_SUITE_P(Paths, OwnLoss, ::testing::Values(Path::cluster, Path::split, Path::team),
                         [](const auto& info) { return std::string(vocabloss::name_of(info.param)); });

TEST_P(OwnLoss, MatchesItsFormula) {
  const Stream one;
  for (const std::int64_t columns : {9, 4097, 50257, 131072}) {
    const Rows rows(7, columns);
    rows.set(one.exec, 9);
    Batch batch;
    batch.logits(rows.x).losses(rows.losses).gradient(rows.g);
    const vocabloss::Plan<user::CollisionProbability, bfloat16, Exec> plan(one.exec, batch, {.sharpness = 1.5},
                                                                           {.path = GetParam()});
    EXPECT_EQ(plan.launch().path, GetParam());
    plan.forward_backward(one.exec, batch);
    one.exec.fence();
    KeptRows({0, 3, 6}, rows.x, {}, 0).expect(collision_probability(1.5), rows.g, rows.losses.data());
  }
}

}  // namespace plan_contracts
