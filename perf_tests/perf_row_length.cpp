// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Question: how does the time of a row grow with the vocabulary? 50257 beside 50304: rows that start on no 16-byte
// boundary deserve the speed of those that do.

#include "harness/perf_main.hpp"

namespace {

using namespace vocabloss;

void add_cases(perf::Cases& cases, const perf::RunOptions& options) {
  const std::vector<std::int64_t> full = {8192, 16384, 32768, 50257, 50304, 65536, 131072, 262144};
  const std::vector<std::int64_t> smoke = {1023, 8192, 50257};
  for (const std::int64_t columns : options.full ? full : smoke) {
    for (const Path path : {Path::automatic, Path::naive}) {
      perf::CaseSpec spec;
      spec.columns = columns;
      spec.rows = options.rows(columns, perf::on_device);
      spec.request.path = path;
      perf::add_case<loss::ReverseKl, bfloat16>(cases, "reverse_kl", spec);
      perf::add_case<loss::ReverseKl, float>(cases, "reverse_kl", spec);
      perf::add_case<loss::CrossEntropy, bfloat16>(cases, "cross_entropy", spec);
      perf::add_case<loss::CrossEntropy, float>(cases, "cross_entropy", spec);
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return perf::perf_main(argc, argv, add_cases); }
