// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Checks path `split` on a device against the serial double reference, over the chosen group of blocks and over others;
// or times it.
//   split_check [--short] [loss]    exit code 1 if any case fails
//   split_check time                times, beside a kernel that streams the same bytes
//   split_check sweep               times by group size: the evidence for split_shapes.hpp

#include "row_program.cuh"
#include "split_timing.cuh"

namespace {

using namespace row_check;
using Impl::SplitShape;

struct SplitProgram {
  int multiprocessors = 0, turn = 0;
  Buffer workspace;

  SplitProgram() { CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0)); }

  static std::vector<Types> types() {
    std::vector<Types> list;
    for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32}) list.push_back({type, type, type});
    list.push_back({DataType::bf16, DataType::fp32, DataType::fp32});
    list.push_back({DataType::fp16, DataType::fp32, DataType::fp16});
    return list;
  }

  /// Rows that no cluster holds.
  std::vector<RowProblem> problems(DataType type, DataType teacher_type) const {
    std::vector<RowProblem> list(type == teacher_type ? 1 : 0);
    for (RowProblem& longest : list) {
      longest.type = type, longest.teacher_type = teacher_type, longest.first_kind = 3;
      longest.rows = type == DataType::bf16 ? 1 : 4, longest.columns = type == DataType::bf16 ? 1048579 : 300001;
    }
    return list;
  }

  template <template <class> class Loss, class Check>
  void run(const RowLoss& facts, const RowProblem& problem, const Check& check) {
    using L = Loss<float>;
    const auto in_shape = [&](const SplitShape& shape) {
      const std::size_t bytes = Impl::split_workspace_bytes<L>(shape);
      workspace.fill(bytes + 64, Matrix::guard);
      workspace.upload();
      Impl::split_initialise(workspace.device(), bytes, nullptr);
      check(shape.describe(), [&facts, shape, this](DataType type, const RowCall<float>& call, Pass pass) {
        const L loss(facts.options);
        void* at = workspace.device();
        if (type == DataType::bf16) Impl::launch_split<L, bfloat16>(loss, call, pass, shape, at, nullptr);
        if (type == DataType::fp16) Impl::launch_split<L, float16>(loss, call, pass, shape, at, nullptr);
        if (type == DataType::fp32) Impl::launch_split<L, float>(loss, call, pass, shape, at, nullptr);
      });
      std::vector<unsigned char> after;
      workspace.download(after);
      for (std::size_t b = bytes; b < after.size(); ++b) overrun = overrun || after[b] != Matrix::guard;
    };
    const SplitShape chosen = Impl::choose_split_shape(problem.rows, problem.columns, facts.streams, problem.type,
                                                       multiprocessors, Impl::split_blocks_of<L>);
    // One of the two: over all losses, problems and layouts (6 of each problem, mostly) both meet everything.
    const int now = turn++;
    if ((now + now / 6) % 2 == 0) return in_shape(chosen);
    // Other groups; every fourth with few of them, so that rows follow one another through the ring.
    constexpr int groups[] = {1, 2, 7, 33, 129, 256, 3};
    SplitShape other = chosen;
    other.group = std::min(groups[now / 2 % 7], chosen.blocks_at_most);
    other.groups = static_cast<int>(std::min<std::int64_t>(problem.rows, other.blocks_at_most / other.group));
    if (now % 4 == 0) other.groups = std::min(other.groups, 2);
    in_shape(other);
  }

  std::string finish() const {
    if (overrun) return "a byte behind the workspace was written";
    try {
      const SplitShape large{500, 4, 2000};
      RowCall<float> call;
      call.rows = 4, call.columns = call.vocab = 8;
      float gradient = 0;
      call.gradient.data = &gradient;
      Impl::launch_split<loss::ZLoss<float>, float>(loss::ZLoss<float>(LossOptions{}), call, Pass::forward_backward,
                                                    large, nullptr, nullptr);
    } catch (const PathRefused&) {
      return "";
    }
    return "2000 blocks at once were not refused";
  }

  bool overrun = false;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "time" || what == "sweep") {
    split_check::time_all(what == "sweep");
    return 0;
  }
  return row_check::check_program<SplitProgram>("split_check", argc, argv);
}
