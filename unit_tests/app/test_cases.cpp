// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The sweep: what multiplies, what does not, and what is left out.

#include <gtest/gtest.h>

#include <algorithm>

#include "cases.hpp"

namespace {

using namespace entropy_sweep;

std::size_t count(const Sweep& sweep, auto predicate) {
  return static_cast<std::size_t>(std::count_if(sweep.cases.begin(), sweep.cases.end(), predicate));
}

TEST(Cases, TheDefaultIsOneCase) {
  const Sweep sweep = make_sweep(Options{});
  ASSERT_EQ(sweep.cases.size(), 1u);
  EXPECT_TRUE(sweep.notes.empty());
  const Case expected{.loss = Loss::reverse_kl,
                      .path = Path::automatic,
                      .exchange = std::nullopt,
                      .comm = Comm::self,
                      .pass = Pass::forward_backward,
                      .rows = 4096,
                      .vocab = 32768,
                      .type = ValueType::bf16,
                      .block_cap = std::nullopt};
  EXPECT_EQ(sweep.cases.front(), expected);
  EXPECT_EQ(bytes_of(expected), std::int64_t{3} * 4096 * 32768 * 2);
  EXPECT_EQ(describe(expected), "reverse_kl auto, 4096 x 32768 bf16");
}

TEST(Cases, TheSweepIsTheProduct) {
  Options options;
  options.losses = {Loss::jsd, Loss::entropy, Loss::z_loss};
  options.vocabs = {10, 20};
  options.rows = {0, 1, 2};
  options.types = {ValueType::fp16, ValueType::fp32};
  options.paths = {Path::naive, Path::reference};
  const Sweep sweep = make_sweep(options);
  EXPECT_EQ(sweep.cases.size(), 3u * 2 * 3 * 2 * 2);
  for (std::size_t i = 0; i < sweep.cases.size(); ++i) {
    for (std::size_t j = i + 1; j < sweep.cases.size(); ++j) EXPECT_FALSE(sweep.cases[i] == sweep.cases[j]);
  }
}

TEST(Cases, BlockCapMultipliesTeamOnly) {
  Options options;
  options.paths = {Path::team, Path::naive, Path::automatic};
  options.block_caps = {1024, 2048, 4096};
  const Sweep sweep = make_sweep(options);
  EXPECT_EQ(sweep.cases.size(), 5u);
  EXPECT_EQ(count(sweep, [](const Case& c) { return c.path == Path::team && c.block_cap; }), 3u);
  EXPECT_EQ(count(sweep, [](const Case& c) { return c.path != Path::team && c.block_cap; }), 0u);
  EXPECT_TRUE(sweep.notes.empty());
  options.paths = {Path::naive};
  EXPECT_EQ(make_sweep(options).notes.size(), 1u);
}

TEST(Cases, VariantMultipliesClusterOnly) {
  Options options;
  options.paths = {Path::cluster, Path::team, Path::split, Path::automatic};
  options.variants = {"one shape", "another"};
  const Sweep sweep = make_sweep(options);
  EXPECT_EQ(sweep.cases.size(), 5u);
  EXPECT_EQ(count(sweep, [](const Case& c) { return c.path == Path::cluster && !c.variant.empty(); }), 2u);
  EXPECT_EQ(count(sweep, [](const Case& c) { return c.path != Path::cluster && !c.variant.empty(); }), 0u);
  EXPECT_NE(describe(sweep.cases[1]).find("another"), std::string::npos);
  EXPECT_TRUE(sweep.notes.empty());
  options.paths = {Path::team};
  ASSERT_EQ(make_sweep(options).notes.size(), 1u);
  EXPECT_NE(make_sweep(options).notes[0].find("--variant"), std::string::npos);
}

TEST(Cases, ExchangeMultipliesRanksOnly) {
  Options options;
  options.exchanges = {Exchange::two_allreduce, Exchange::allgather, Exchange::in_kernel};
  options.paths = {Path::team};
  EXPECT_EQ(make_sweep(options).cases.size(), 1u);
  EXPECT_FALSE(make_sweep(options).cases.front().exchange.has_value());
  EXPECT_TRUE(make_sweep(options).notes.empty());
  options.comm = Comm::mpi;
  options.paths = {Path::team, Path::gather};
  const Sweep sweep = make_sweep(options);
  EXPECT_EQ(count(sweep, [](const Case& c) { return c.path == Path::team && c.exchange; }), 2u);
  EXPECT_EQ(count(sweep, [](const Case& c) { return c.path == Path::gather && !c.exchange; }), 1u);
}

TEST(Cases, EachPathHasItsExchanges) {
  Options options;
  options.comm = Comm::mpi;
  options.exchanges = {Exchange::two_allreduce, Exchange::allgather, Exchange::in_kernel};
  options.paths = {Path::reference, Path::naive, Path::team, Path::cluster, Path::split, Path::gather, Path::automatic};
  const Sweep sweep = make_sweep(options);
  const auto exchanges = [&](Path path) {
    std::string all;
    for (const Case& one : sweep.cases) {
      if (one.path == path) all += (one.exchange ? std::string(to_name(*one.exchange)) : "none") + " ";
    }
    return all;
  };
  EXPECT_EQ(exchanges(Path::reference), "");
  EXPECT_EQ(exchanges(Path::naive), "two_allreduce ");
  EXPECT_EQ(exchanges(Path::team), "two_allreduce allgather ");
  EXPECT_EQ(exchanges(Path::cluster), "two_allreduce allgather in_kernel ");
  EXPECT_EQ(exchanges(Path::split), "");
  EXPECT_EQ(exchanges(Path::gather), "none ");
  EXPECT_EQ(exchanges(Path::automatic), "two_allreduce allgather in_kernel ");
  ASSERT_EQ(sweep.notes.size(), 1u);
  for (const char* what : {"path reference needs the whole vocabulary", "path naive has no exchange allgather",
                           "path team has no exchange in_kernel", "path split needs the whole vocabulary"}) {
    EXPECT_NE(sweep.notes[0].find(what), std::string::npos) << sweep.notes[0];
  }
}

TEST(Cases, TheImpossibleIsLeftOutWithOneNote) {
  Options options;
  options.paths = {Path::gather, Path::team, Path::cluster, Path::split};
  options.types = {ValueType::fp64, ValueType::bf16};
  options.losses = {Loss::jsd, Loss::entropy};
  const Sweep sweep = make_sweep(options);
  EXPECT_EQ(sweep.cases.size(), 2u * (1 + 3));
  ASSERT_EQ(sweep.notes.size(), 1u);
  EXPECT_NE(sweep.notes[0].find("gather"), std::string::npos);
  EXPECT_NE(sweep.notes[0].find("cluster has no type fp64"), std::string::npos);

  options.paths = {Path::naive, Path::cluster};
  options.comm = Comm::nccl;
  options.types = {ValueType::bf16};
  options.exchanges = {Exchange::in_kernel};
  const Sweep ranks = make_sweep(options);
  EXPECT_EQ(count(ranks, [](const Case& c) { return c.path == Path::cluster; }), 2u);
  EXPECT_EQ(ranks.cases.size(), 2u);

  options.paths = {Path::naive};
  const Sweep empty = make_sweep(options);
  EXPECT_TRUE(empty.cases.empty());
  EXPECT_EQ(empty.notes.back(), "no case is left to run");
}

TEST(Cases, AFileGivesTheShapeAndUnlessToldTheType) {
  Options options;
  options.inputs = {"a.safetensors"};
  const InputShape shape{.rows = 160, .vocab = 50257, .type = ValueType::fp16};
  Sweep sweep = make_sweep(options, shape);
  ASSERT_EQ(sweep.cases.size(), 1u);
  EXPECT_EQ(sweep.cases[0].rows, 160);
  EXPECT_EQ(sweep.cases[0].vocab, 50257);
  EXPECT_EQ(sweep.cases[0].type, ValueType::fp16);
  options.types = {ValueType::fp32, ValueType::fp64};
  options.type_given = true;
  sweep = make_sweep(options, shape);
  ASSERT_EQ(sweep.cases.size(), 2u);
  EXPECT_EQ(sweep.cases[1].type, ValueType::fp64);
}

TEST(Cases, InPlaceNeedsAGradient) {
  Options options;
  options.in_place = true;
  EXPECT_TRUE(make_sweep(options).cases.front().in_place);
  options.pass = Pass::forward;
  EXPECT_FALSE(make_sweep(options).cases.front().in_place);
  EXPECT_EQ(make_sweep(options).notes.size(), 1u);
}

TEST(Cases, BytesCountEachStreamOnce) {
  Case one{.loss = Loss::cross_entropy, .pass = Pass::forward, .rows = 3, .vocab = 5, .type = ValueType::fp32};
  EXPECT_EQ(bytes_of(one), 3 * 5 * 4);
  one.pass = Pass::forward_backward;
  EXPECT_EQ(bytes_of(one), 3 * 5 * 4 * 2);
  one.accumulate = true;
  EXPECT_EQ(bytes_of(one), 3 * 5 * 4 * 3);
  one.loss = Loss::jsd;
  EXPECT_EQ(bytes_of(one), 3 * 5 * 4 * 4);
  one.rows = 0;
  EXPECT_EQ(bytes_of(one), 0);
}

}  // namespace
