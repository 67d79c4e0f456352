// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Checks path `team` on a device against the serial double reference, with the team that is chosen and with others.
//   team_check [--short] [loss]    exit code 1 if any case fails

#include <vocabloss/impl/extern_templates.hpp>

#include "row_program.cuh"

namespace {

using namespace row_check;

struct TeamProgram {
  int turn = 0;

  static std::vector<Types> types() {
    std::vector<Types> list;
    for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32}) list.push_back({type, type, type});
    list.push_back({DataType::bf16, DataType::fp32, DataType::fp32});
    list.push_back({DataType::fp16, DataType::fp32, DataType::fp16});
    return list;
  }

  std::vector<RowProblem> problems(DataType, DataType) const { return {}; }

  template <class L, class T>
  static void launch(const RowLoss& facts, const RowCall<float>& call, Pass pass, int asked) {
    using Exec = Kokkos::DefaultExecutionSpace;
    constexpr int wide = Impl::wide_columns_per_thread(sizeof(T), L::streams);
    const Impl::TeamShape shape = Impl::device_team_shape(asked, call.columns, wide, sizeof(T));
    LaunchPlan plan;
    plan.path = vocabloss::Path::team;
    plan.block_cap = shape.block_cap;
    plan.team_size = shape.team_size;
    const Exec exec;
    Impl::TeamPath<L, T, Exec>::run(exec, L(facts.options), call, pass, plan, nullptr);
    exec.fence();
  }

  template <template <class> class Loss, class Check>
  void run(const RowLoss& facts, const RowProblem&, const Check& check) {
    using L = Loss<float>;
    // The chosen team every other time; over all losses, problems and layouts (6 of each problem, mostly) each meets
    // everything.
    constexpr int caps[] = {1, 2048, 16384, 32768, 1000};
    const int now = turn++, asked = (now + now / 6) % 2 == 0 ? 0 : caps[now / 2 % 5];
    const std::string words = asked == 0 ? "the chosen team" : "block cap " + std::to_string(asked);
    check(words, [&facts, asked](DataType type, const RowCall<float>& call, Pass pass) {
      if (type == DataType::bf16) launch<L, bfloat16>(facts, call, pass, asked);
      if (type == DataType::fp16) launch<L, float16>(facts, call, pass, asked);
      if (type == DataType::fp32) launch<L, float>(facts, call, pass, asked);
    });
  }

  std::string finish() const { return ""; }
};

}  // namespace

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos;
  return row_check::check_program<TeamProgram>("team_check", argc, argv);
}
