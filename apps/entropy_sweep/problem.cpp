// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#include "problem.hpp"

#include <Kokkos_Core.hpp>
#include <vocabloss/config.hpp>
#include <vocabloss/error.hpp>
#include <vocabloss/tuning/record.hpp>
#include <vocabloss/types.hpp>

#include "synthetic.hpp"

namespace entropy_sweep {

std::vector<std::int64_t> labels_of(const ProblemSpec& spec) {
  if (spec.input != nullptr) return spec.input->labels();
  std::vector<std::int64_t> labels(static_cast<std::size_t>(spec.rows));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    labels[i] =
        spec.data == Data::peaked ? peaked_label(spec.seed, row, spec.vocab) : random_label(spec.seed, row, spec.vocab);
  }
  return labels;
}

void write_record(const vocabloss::TuningRecord& record, const std::string& file) { record.write(file); }

bool data_on_host() {
  using Memory = Kokkos::DefaultExecutionSpace::memory_space;
  return Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;
}

namespace {

template <class Communicator>
std::unique_ptr<Problem> make_problem_over(const ProblemSpec& spec, const Sharing& sharing) {
  switch (spec.type) {
    case ValueType::bf16:
      return make_typed_problem<vocabloss::bfloat16, Communicator>(spec, sharing);
    case ValueType::fp16:
      return make_typed_problem<vocabloss::float16, Communicator>(spec, sharing);
    case ValueType::fp32:
      return make_typed_problem<float, Communicator>(spec, sharing);
    case ValueType::fp64:
      break;
  }
  return make_typed_problem<double, Communicator>(spec, sharing);
}

}  // namespace

std::unique_ptr<Problem> make_problem(const ProblemSpec& spec, Comm comm, const Sharing& sharing) {
  const std::string missing = missing_backend(comm);
  if (!missing.empty()) throw vocabloss::BackendMissing(missing);
#if VOCABLOSS_HAVE_MPI
  if (comm == Comm::mpi) return make_problem_over<vocabloss::comm::Mpi>(spec, sharing);
#if VOCABLOSS_HAVE_NCCL
  if (comm == Comm::nccl) return make_problem_over<vocabloss::comm::Nccl>(spec, sharing);
#endif
#endif
  return make_problem_over<vocabloss::comm::Self>(spec, sharing);
}

}  // namespace entropy_sweep
