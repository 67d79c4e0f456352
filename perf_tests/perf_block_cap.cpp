// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Question: how many columns should a team hold at once? Path `team` with block caps 1024 to 32768 over three
// vocabularies: the table that this library's first report was about, with its portable path in it.

#include "harness/perf_main.hpp"

namespace {

using namespace vocabloss;

void add_cases(perf::Cases& cases, const perf::RunOptions& options) {
  const std::vector<std::int64_t> full = {32768, 65536, 131072};
  const std::vector<std::int64_t> smoke = {4099};
  for (const std::int64_t columns : options.full ? full : smoke) {
    perf::CaseSpec spec;
    spec.columns = columns;
    spec.rows = options.rows(columns, perf::on_device);
    spec.request.path = Path::team;
    for (int block_cap = 1024; block_cap <= 32768; block_cap *= 2) {
      spec.request.block_cap = block_cap;
      perf::add_case<loss::ReverseKl, bfloat16>(cases, "reverse_kl", spec);
      perf::add_case<loss::CrossEntropy, bfloat16>(cases, "cross_entropy", spec);
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return perf::perf_main(argc, argv, add_cases); }
