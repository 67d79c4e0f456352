// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Checks path `cluster` on a device against the serial double reference, in shapes that the table chooses and in
// others.
//   cluster_check [--short] [loss]    exit code 1 if any case fails

#include <vocabloss/impl/cuda/cluster_shapes.hpp>
#include <vocabloss/impl/cuda/cluster_shipped.cuh>

#include "row_program.cuh"

namespace {

using namespace row_check;
using Impl::ClusterTickets;

/// Shapes that the table does not choose for these rows, so that every width and every number of pieces ahead meets odd
/// ones.
std::vector<ClusterShape> other_shapes(int streams, int rounds) {
  if (streams == 1)
    return {{512, 2, 1, 1, 3},  {512, 2, 1, 2, 64}, {256, 4, 2, 4, 1},    {256, 2, 2, 4, 0},    {512, 2, 1, 8, 2},
            {256, 4, 2, 2, 64}, {256, 2, 2, 2, 1},  {128, 4, 2, 1, 1, 2}, {128, 4, 2, 4, 64, 2}};
  std::vector<ClusterShape> shapes{
      {512, 2, 1, 2, 1}, {512, 2, 1, 4, 0}, {256, 2, 2, 8, 64}, {256, 2, 2, 4, 2}, {512, 2, 1, 1, 64}};
  if (rounds == 1) shapes.insert(shapes.end(), {{128, 2, 2, 2, 64, 2}, {128, 2, 2, 1, 1, 2}});
  return shapes;
}

struct ClusterProgram {
  ClusterTickets* tickets = nullptr;
  int turn = 0;

  ClusterProgram() {
    CUDA(cudaMalloc(&tickets, sizeof(ClusterTickets)));
    Impl::cluster_initialise(tickets, nullptr);
  }

  static std::vector<Types> types() {
    return {{DataType::bf16, DataType::bf16, DataType::bf16},
            {DataType::fp16, DataType::fp16, DataType::fp16},
            {DataType::fp32, DataType::fp32, DataType::fp32}};
  }

  template <template <class> class Loss, class Check>
  void run(const RowLoss& facts, const RowProblem& problem, const Check& check) {
    using L = Loss<float>;
    const auto in_shape = [&](const ClusterShape& shape, const ClusterShape& forward, ClusterTickets* dealt) {
      check(shape.describe() + ", forward " + forward.describe() + (dealt ? "" : ", no tickets"),
            [&facts, shape, forward, dealt](DataType type, const RowCall<float>& call, Pass pass) {
              const L loss(facts.options);
              const ClusterShape& now = pass == Pass::forward ? forward : shape;
              if (type == DataType::bf16) Impl::launch_cluster<L, bfloat16>(loss, call, pass, now, dealt, nullptr);
              if (type == DataType::fp16) Impl::launch_cluster<L, float16>(loss, call, pass, now, dealt, nullptr);
              if (type == DataType::fp32) Impl::launch_cluster<L, float>(loss, call, pass, now, dealt, nullptr);
            });
    };
    // One of the two: over all losses, problems and layouts (6 of each problem, mostly) both meet everything.
    const int now = turn++;
    const ClusterShape* chosen = Impl::choose_cluster_shape(problem.columns, problem.type, facts.streams, facts.rounds);
    const bool other_now = (now + now / 6) % 2 == 1;
    if (chosen && !other_now) {
      const std::int64_t rows = now % 4 == 0 ? problem.rows : 1 << 20;  // of so many rows, each streams through a block
      in_shape(
          *chosen,
          Impl::choose_forward_cluster_shape(problem.columns, rows, problem.type, facts.streams, facts.rounds, *chosen),
          tickets);
    }
    if (!other_now) return;
    const std::vector<ClusterShape> others = other_shapes(facts.streams, facts.rounds);
    const ClusterShape& other = others[now / 2 % others.size()];
    if (other.holds(Impl::vectors_of(problem.columns, problem.type), facts.streams)) {
      in_shape(other, other, now % 3 == 0 ? nullptr : tickets);
    }
  }

  /// Rows enough that every group of consumers takes several.
  std::vector<RowProblem> problems(DataType logits, DataType teacher) const {
    std::vector<RowProblem> added;
    for (const std::int64_t columns : {515, 3001}) {
      added.push_back({.type = logits, .teacher_type = teacher, .rows = 1203, .columns = columns, .modifiers = true});
    }
    return added;
  }

  std::string finish() const {
    ClusterTickets left;
    CUDA(cudaMemcpy(&left, tickets, sizeof left, cudaMemcpyDeviceToHost));
    return left.next == 0 && left.finished == 0 ? "" : "tickets were left behind";
  }
};

}  // namespace

int main(int argc, char** argv) { return row_check::check_program<ClusterProgram>("cluster_check", argc, argv); }
