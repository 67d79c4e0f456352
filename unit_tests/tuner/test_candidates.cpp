// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// What a tuner tries: plain data, checked where no GPU is.

#include <gtest/gtest.h>
#include <vocabloss/impl/tuning/candidates.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace vocabloss;
using Impl::candidate_groups;
using Impl::cluster_candidates;

struct Kind {
  int streams, rounds;
};
constexpr Kind kinds[] = {{1, 1}, {2, 1}, {2, 2}};

TEST(ClusterCandidates, HoldTheRowAndOccurOnce) {
  for (const Kind& kind : kinds) {
    for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32}) {
      for (const std::int64_t columns : {1, 50257, 131072}) {
        const std::vector<ClusterShape> shapes = cluster_candidates(columns, type, kind.streams, kind.rounds);
        EXPECT_FALSE(shapes.empty()) << columns;
        for (const ClusterShape& shape : shapes) {
          EXPECT_TRUE(shape.holds(Impl::vectors_of(columns, type), kind.streams)) << shape.describe();
          EXPECT_EQ(std::count(shapes.begin(), shapes.end(), shape), 1) << shape.describe();
          EXPECT_EQ(ClusterShape::parse(shape.describe()), shape);
        }
      }
    }
  }
}

TEST(ClusterCandidates, TheTablesOwnChoiceIsAmongThem) {
  for (const Kind& kind : kinds) {
    for (const std::int64_t columns : {1000, 32768, 65536, 131072}) {
      const auto shapes = cluster_candidates(columns, DataType::bf16, kind.streams, kind.rounds);
      const auto* chosen = Impl::choose_cluster_shape(columns, DataType::bf16, kind.streams, kind.rounds);
      ASSERT_NE(chosen, nullptr);
      EXPECT_NE(std::find(shapes.begin(), shapes.end(), *chosen), shapes.end()) << chosen->describe();
    }
  }
}

TEST(ClusterCandidates, ShortRowsGetAllWidthsAndLongOnesFewer) {
  const auto widths = [](std::int64_t columns) {
    std::vector<int> found;
    for (const ClusterShape& shape : cluster_candidates(columns, DataType::bf16, 2, 1)) {
      if (std::find(found.begin(), found.end(), shape.width) == found.end()) found.push_back(shape.width);
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  EXPECT_EQ(widths(1000), (std::vector{1, 2, 4, 8}));
  EXPECT_EQ(widths(262144), (std::vector{8}));
  EXPECT_TRUE(widths(std::int64_t{1} << 24).empty());
  EXPECT_TRUE(cluster_candidates(1000, DataType::fp64, 2, 1).empty());
}

std::vector<PlanRequest> all_of(const Impl::CandidateFacts& facts, const PlanRequest& base = {}) {
  std::vector<PlanRequest> all;
  for (const auto& group : candidate_groups(facts, base)) all.insert(all.end(), group.begin(), group.end());
  return all;
}

int count(const std::vector<PlanRequest>& requests, auto predicate) {
  return static_cast<int>(std::count_if(requests.begin(), requests.end(), predicate));
}

TEST(Candidates, OneRankHasEveryPathButTheReference) {
  const auto all = all_of({.columns = 32768, .logits = DataType::bf16, .streams = 2, .rounds = 1});
  const auto of = [&](Path path) { return count(all, [path](const PlanRequest& r) { return r.path == path; }); };
  EXPECT_EQ(of(Path::team), 7);  // the plan's own cap, and 1024 to 32768
  EXPECT_EQ(of(Path::split), 1);
  EXPECT_EQ(of(Path::naive), 1);
  EXPECT_EQ(of(Path::cluster), 1 + static_cast<int>(cluster_candidates(32768, DataType::bf16, 2, 1).size()));
  EXPECT_EQ(of(Path::reference) + of(Path::gather) + of(Path::automatic), 0);
  EXPECT_EQ(count(all, [](const PlanRequest& r) { return r.block_cap > 0 && r.path != Path::team; }), 0);
  EXPECT_EQ(count(all, [](const PlanRequest& r) { return !r.variant.empty() && r.path != Path::cluster; }), 0);
}

TEST(Candidates, RanksHaveTheExchangesOfEachPath) {
  Impl::CandidateFacts facts{.columns = 32768, .logits = DataType::bf16, .streams = 2, .rounds = 1, .ranks = 4};
  const auto of = [&](Path path, Exchange exchange) {
    return count(all_of(facts), [=](const PlanRequest& r) { return r.path == path && r.exchange == exchange; });
  };
  EXPECT_EQ(of(Path::team, Exchange::allgather), 7);
  EXPECT_EQ(of(Path::team, Exchange::two_allreduce), 7);
  EXPECT_EQ(of(Path::team, Exchange::in_kernel), 0);
  EXPECT_GT(of(Path::cluster, Exchange::in_kernel), 1);
  EXPECT_EQ(of(Path::cluster, Exchange::allgather), 0);
  EXPECT_EQ(of(Path::split, Exchange::allgather), 0);
  EXPECT_EQ(of(Path::gather, Exchange::allgather), 1);
  facts.exchange = Exchange::two_allreduce;
  EXPECT_EQ(of(Path::team, Exchange::allgather) + of(Path::cluster, Exchange::in_kernel), 0);
  EXPECT_EQ(of(Path::gather, Exchange::allgather), 0);
  EXPECT_EQ(of(Path::team, Exchange::two_allreduce), 7);
}

TEST(Candidates, KeepTheCallersLimits) {
  const PlanRequest base{.block_cap = 3, .block_rows = 5, .memory_limit = 7, .variant = "x"};
  for (const PlanRequest& request : all_of({.columns = 100, .ranks = 2}, base)) {
    EXPECT_EQ(request.block_rows, 5);
    EXPECT_EQ(request.memory_limit, 7u);
    EXPECT_NE(request.block_cap, 3);
    EXPECT_NE(request.variant, "x");
  }
}

}  // namespace
