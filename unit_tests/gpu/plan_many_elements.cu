// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Batches of more than 2^31 elements, in place, through the public Plan: the rows behind that border are as right as
// those before it.

#include "plan_against_oracle.cuh"

namespace plan_contracts {

constexpr std::int64_t many_rows = 17000, many_columns = 131072;
constexpr std::int64_t border = (INT64_C(1) << 31) / many_columns;  // the row that element 2^31 lies in
static_assert(many_rows > border);

class ManyElements : public ::testing::TestWithParam<Path> {
 protected:
  Stream one;
  Matrix make(const std::string& name) const {
    return Matrix(Kokkos::view_alloc(one.exec, Kokkos::WithoutInitializing, name), many_rows, many_columns);
  }
  Kokkos::View<float*, Kokkos::CudaSpace> losses{"losses", many_rows};
  Kokkos::View<int*, Kokkos::CudaSpace> labels{"labels", many_rows};
  const std::vector<std::int64_t> looked_at = {0, border - 1, border, many_rows - 2, many_rows - 1};
};
INSTANTIATE_TEST_SUITE_P(Paths, ManyElements, ::testing::Values(Path::cluster, Path::split, Path::team),
                         [](const auto& info) { return std::string(vocabloss::name_of(info.param)); });

TEST_P(ManyElements, OfOneStream) {
  const Matrix x = make("x");
  fill(one.exec, x, 6);
  Batch batch;
  batch.logits(x).labels(labels).losses(losses).gradient(x);
  const vocabloss::Plan<vocabloss::loss::CrossEntropy, bfloat16, Exec> plan(one.exec, batch, {}, {.path = GetParam()});
  const KeptRows kept(looked_at, x, {}, 0);
  plan.forward_backward(one.exec, batch);
  one.exec.fence();
  const auto loss = row_check::row_loss<vocabloss::loss::CrossEntropy>("cross_entropy", {});
  kept.expect(loss, x, losses.data());
}

TEST_P(ManyElements, OfTwoStreamsFromSavedStatistics) {
  const Matrix x = make("x"), t = make("t");
  fill(one.exec, x, 7);
  fill(one.exec, t, 8);
  Batch batch;
  batch.logits(x).teacher(t).losses(losses).gradient(x);
  const vocabloss::Plan<vocabloss::loss::ReverseKl, bfloat16, Exec> plan(one.exec, batch, {}, {.path = GetParam()});
  const KeptRows kept(looked_at, x, t, 0);
  plan.forward(one.exec, batch);
  plan.backward(one.exec, batch);
  one.exec.fence();
  const auto loss = row_check::row_loss<vocabloss::loss::ReverseKl>("reverse_kl", {});
  kept.expect(loss, x, losses.data());
}

}  // namespace plan_contracts
