// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Question: what does each loss cost in each type, and how far is it from a kernel that only moves the data?

#include "harness/perf_main.hpp"

namespace {

using namespace vocabloss;

template <template <class> class Loss>
void add_loss(perf::Cases& cases, const perf::RunOptions& options, const std::string& name) {
  perf::CaseSpec spec;
  spec.columns = options.full ? 32768 : 4099;  // 4099: a tail in every type
  spec.rows = options.rows(spec.columns, perf::on_device);
  for (const Path path : {Path::automatic, Path::naive}) {
    spec.request.path = path;
    perf::add_case<Loss, bfloat16>(cases, name, spec);
    perf::add_case<Loss, float16>(cases, name, spec);
    perf::add_case<Loss, float>(cases, name, spec);
    perf::add_case<Loss, double>(cases, name, spec);
  }
}

void add_cases(perf::Cases& cases, const perf::RunOptions& options) {
  add_loss<loss::CrossEntropy>(cases, options, "cross_entropy");
  add_loss<loss::SoftCrossEntropy>(cases, options, "soft_cross_entropy");
  add_loss<loss::SoftCrossEntropyProbabilities>(cases, options, "soft_cross_entropy_probabilities");
  add_loss<loss::ForwardKl>(cases, options, "forward_kl");
  add_loss<loss::ReverseKl>(cases, options, "reverse_kl");
  add_loss<loss::Jsd>(cases, options, "jsd");
  add_loss<loss::ZLoss>(cases, options, "z_loss");
  add_loss<loss::Entropy>(cases, options, "entropy");
  add_loss<loss::LogProb>(cases, options, "log_prob");
  add_loss<loss::LogProbEntropy>(cases, options, "log_prob_entropy");
}

}  // namespace

int main(int argc, char** argv) { return perf::perf_main(argc, argv, add_cases); }
