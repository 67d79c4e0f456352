// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

#ifndef VOCABLOSS_TEST_COMM_RUN_SHARED_HPP
#define VOCABLOSS_TEST_COMM_RUN_SHARED_HPP

/// \file
/// From a shard's Call to a Plan over MPI. Included by the generated sources only: they compile every plan.

#include <stdexcept>

#include "comm/support/shared.hpp"
#include "support/loss_names.hpp"
#include "support/run.hpp"

namespace test {

template <class Tag, class Logit, class Comm>
Outputs run_shared_as(Comm& comm, const Call& shard, const VocabPartition& partition, const SharedRequest& request) {
  using Plan = vocabloss::Plan<Tag::template Loss, Logit, Exec, Comm>;
  constexpr int outputs = Plan::Algebra::outputs;
  const Exec exec;
  CallStorage<Logit> storage(shard, false);  // a teacher only where the call has one
  auto batch = storage.batch(outputs);
  batch.partition(partition);
  const Plan plan(exec, comm, batch, shard.options,
                  {.path = request.path,
                   .block_cap = shard.block_cap,
                   .exchange = request.exchange,
                   .block_rows = request.block_rows,
                   .memory_limit = request.memory_limit,
                   .variant = request.variant,
                   .time_limit = request.time_limit});
  switch (shard.sequence) {
    case Sequence::forward:
      plan.forward(exec, batch);
      break;
    case Sequence::forward_backward_twice:
      plan.forward_backward(exec, batch);
      [[fallthrough]];
    case Sequence::forward_backward:
      plan.forward_backward(exec, batch);
      break;
    case Sequence::forward_then_backward:
    case Sequence::forward_then_own_statistics:
      plan.forward(exec, batch);
      plan.backward(exec, batch);
      break;
  }
  plan.wait(exec);
  Outputs result = storage.outputs(outputs);
  if (shard.sequence == Sequence::forward) result.gradient.clear();
  result.launch = plan.launch().describe();
  return result;
}

template <class Tag>
Outputs run_shared(Mpi& comm, const Call& shard, const VocabPartition& partition, const SharedRequest& request) {
  switch (shard.logits) {
    case DataType::fp32:
      return run_shared_as<Tag, float>(comm, shard, partition, request);
    case DataType::fp64:
      return run_shared_as<Tag, double>(comm, shard, partition, request);
    case DataType::bf16:
      return run_shared_as<Tag, vocabloss::bfloat16>(comm, shard, partition, request);
    case DataType::fp16:
      break;
  }
  throw std::logic_error("fp16 is not compiled into the tests over ranks");
}

}  // namespace test

#endif
