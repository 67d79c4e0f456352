// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors
#ifndef VOCABLOSS_IMPL_TUNING_CANDIDATES_HPP
#define VOCABLOSS_IMPL_TUNING_CANDIDATES_HPP

/// \file
/// \brief What a tuner tries. Plain data: the same list on all ranks, whatever the build and the device can do.

#include <vocabloss/impl/cuda/cluster_candidates.hpp>
#include <vocabloss/tuning/plan.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vocabloss::Impl {

/// Requests for one path (and exchange). The first leaves the rest to the plan: where it is refused, so are the others.
using CandidateGroup = std::vector<PlanRequest>;

struct CandidateFacts {
  std::int64_t columns = 0;  ///< of the largest shard
  DataType logits = DataType::fp32;
  int streams = 1, rounds = 1;
  int ranks = 1;
  std::optional<Exchange> exchange{};  ///< between ranks: the only one to try
};

inline constexpr int tuned_block_caps[] = {1024, 2048, 4096, 8192, 16384, 32768};

/// All paths but `reference`, which is there to be right and not to be fast. `base` gives what is not chosen here:
/// memory and time limits, rows of a block.
inline std::vector<CandidateGroup> candidate_groups(const CandidateFacts& facts, const PlanRequest& base) {
  std::vector<CandidateGroup> groups;
  const auto request_for = [&](Path path, Exchange exchange) {
    PlanRequest request = base;
    request.path = path;
    request.exchange = exchange;
    request.block_cap = 0;
    request.variant.clear();
    return request;
  };
  const auto add_team = [&](Exchange exchange) {
    CandidateGroup group = {request_for(Path::team, exchange)};
    for (const int cap : tuned_block_caps) {
      group.push_back(group.front());
      group.back().block_cap = cap;
    }
    groups.push_back(group);
  };
  const auto add_cluster = [&](Exchange exchange) {
    CandidateGroup group = {request_for(Path::cluster, exchange)};
    for (const ClusterShape& shape : cluster_candidates(facts.columns, facts.logits, facts.streams, facts.rounds)) {
      group.push_back(group.front());
      group.back().variant = shape.describe();
    }
    groups.push_back(group);
  };
  if (facts.ranks == 1) {
    add_cluster(base.exchange);
    for (const Path path : {Path::split, Path::naive}) groups.push_back({request_for(path, base.exchange)});
    add_team(base.exchange);
    return groups;
  }
  const auto may = [&](Exchange exchange) { return !facts.exchange || *facts.exchange == exchange; };
  if (may(Exchange::in_kernel)) add_cluster(Exchange::in_kernel);
  for (const Exchange exchange : {Exchange::allgather, Exchange::two_allreduce}) {
    if (may(exchange)) add_team(exchange);
  }
  if (may(Exchange::two_allreduce)) groups.push_back({request_for(Path::naive, Exchange::two_allreduce)});
  if (!facts.exchange) groups.push_back({request_for(Path::gather, base.exchange)});
  return groups;
}

/// "team block_cap=1024 exchange=allgather", say: for what has no plan that could print itself.
inline std::string describe_request(const PlanRequest& request, int ranks) {
  std::string text(name_of(request.path));
  if (request.block_cap > 0) text += " block_cap=" + std::to_string(request.block_cap);
  if (!request.variant.empty()) text += " " + request.variant;
  if (ranks > 1 && request.path != Path::gather) text += " exchange=" + std::string(name_of(request.exchange));
  return text;
}

}  // namespace vocabloss::Impl

#endif
