// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The command line: defaults, lists, and that every bad option gives exit code 2 with a message naming it.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>
#include <vocabloss/tuning/cluster_shape.hpp>

#include "options.hpp"

namespace {

using namespace entropy_sweep;

struct Parsed {
  ParseOutcome outcome;
  std::string out;
  std::string err;
};

Parsed parse(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"entropy_sweep"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  ParseOutcome outcome = parse_options(static_cast<int>(argv.size()), argv.data(), "entropy_sweep 1.2.3", out, err);
  return {std::move(outcome), out.str(), err.str()};
}

Options accepted(const std::vector<std::string>& arguments) {
  const Parsed parsed = parse(arguments);
  EXPECT_FALSE(parsed.outcome.exit_code.has_value()) << parsed.err;
  EXPECT_EQ(parsed.err, "");
  return parsed.outcome.options;
}

/// Exit code 2, nothing on stdout, and each of `words` in the message.
void expect_bad(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
  const Parsed parsed = parse(arguments);
  std::string line;
  for (const std::string& argument : arguments) line += argument + " ";
  ASSERT_TRUE(parsed.outcome.exit_code.has_value()) << line;
  EXPECT_EQ(*parsed.outcome.exit_code, exit_bad_input) << line;
  EXPECT_EQ(parsed.out, "") << line;
  for (const std::string& word : words) {
    EXPECT_NE(parsed.err.find(word), std::string::npos) << line << "said: " << parsed.err << "without: " << word;
  }
}

std::string scratch(const std::string& name) { return (std::filesystem::path(testing::TempDir()) / name).string(); }

TEST(Options, DefaultsAreThoseOfTheContract) {
  const Options options = accepted({});
  EXPECT_EQ(options.losses, std::vector{Loss::reverse_kl});
  EXPECT_EQ(options.vocabs, std::vector<std::int64_t>{32768});
  EXPECT_EQ(options.rows, std::vector<std::int64_t>{4096});
  EXPECT_EQ(options.types, std::vector{ValueType::bf16});
  EXPECT_EQ(options.paths, std::vector{Path::automatic});
  EXPECT_TRUE(options.block_caps.empty());
  EXPECT_EQ(options.exchanges, std::vector{Exchange::allgather});
  EXPECT_EQ(options.pass, Pass::forward_backward);
  EXPECT_EQ(options.comm, Comm::self);
  EXPECT_EQ(options.temperature, 1);
  EXPECT_EQ(options.logit_scale, 1);
  EXPECT_EQ(options.teacher_scale, 1);
  EXPECT_EQ(options.jsd_beta, 0.5);
  EXPECT_EQ(options.ignore_index, -100);
  EXPECT_EQ(options.seed, 0u);
  EXPECT_EQ(options.data, Data::normal);
  EXPECT_EQ(options.repeat, 20);
  EXPECT_EQ(options.back_to_back, 1);
  EXPECT_EQ(options.memory_limit, 0);
  EXPECT_FALSE(options.graph);
  EXPECT_TRUE(options.variants.empty());
  EXPECT_FALSE(options.in_place || options.check || options.quiet || options.dump_grad || options.type_given);
  EXPECT_TRUE(options.inputs.empty() && options.json.empty() && options.csv.empty() && options.dump.empty());
}

TEST(Options, ListsAreReadInOrderAndHoldEachValueOnce) {
  const Options options = accepted({"--loss", "jsd,entropy,jsd", "--vocab=7,50257,7", "--rows", "0,3", "--type",
                                    "fp64,bf16", "--path", "team,naive,auto,reference,cluster,split,gather",
                                    "--block-cap", "1024,32768", "--exchange", "in_kernel,two_allreduce"});
  EXPECT_EQ(options.losses, (std::vector{Loss::jsd, Loss::entropy}));
  EXPECT_EQ(options.vocabs, (std::vector<std::int64_t>{7, 50257}));
  EXPECT_EQ(options.rows, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(options.types, (std::vector{ValueType::fp64, ValueType::bf16}));
  EXPECT_EQ(options.paths.size(), 7u);
  EXPECT_EQ(options.block_caps, (std::vector<std::int64_t>{1024, 32768}));
  EXPECT_EQ(options.exchanges, (std::vector{Exchange::in_kernel, Exchange::two_allreduce}));
  EXPECT_TRUE(options.type_given);
}

TEST(Options, EveryNameOfTheContractIsKnown) {
  for (const char* name : {"cross_entropy", "soft_cross_entropy", "forward_kl", "reverse_kl", "jsd", "z_loss",
                           "entropy", "log_prob", "log_prob_entropy"}) {
    EXPECT_EQ(to_name(accepted({"--loss", name}).losses.front()), name);
  }
  for (const char* name : {"forward", "backward", "forward_backward"}) {
    EXPECT_EQ(to_name(accepted({"--pass", name}).pass), name);
  }
  for (const char* name : {"self", "mpi", "nccl"}) EXPECT_EQ(to_name(accepted({"--comm", name}).comm), name);
  for (const char* name : {"bf16", "fp16", "fp32", "fp64"}) {
    EXPECT_EQ(to_name(accepted({"--type", name}).types.front()), name);
  }
}

TEST(Options, NumbersAreReadWhole) {
  const Options options =
      accepted({"--temperature", "2", "--logit-scale", "0.5", "--teacher-scale", "3e-1", "--jsd-beta", "0",
                "--ignore-index", "-7", "--seed", "18446744073709551615", "--repeat", "1"});
  EXPECT_EQ(options.student_factor(), 0.25);
  EXPECT_EQ(options.teacher_factor(), 0.15);
  EXPECT_EQ(options.jsd_beta, 0);
  EXPECT_EQ(options.ignore_index, -7);
  EXPECT_EQ(options.seed, 18446744073709551615u);
  EXPECT_EQ(options.repeat, 1);
}

TEST(Options, KokkosArgumentsArePassedOver) {
  EXPECT_EQ(accepted({"--kokkos-num-threads=2", "--rows", "3"}).rows, std::vector<std::int64_t>{3});
}

TEST(Options, HelpAndVersionExitWithZero) {
  for (const char* option : {"--help", "-h"}) {
    const Parsed help = parse({option});
    EXPECT_EQ(help.outcome.exit_code, exit_ok);
    for (const char* word : {"--loss", "--block-cap", "--dump-grad", "Examples:", "mpirun", "Exit code"}) {
      EXPECT_NE(help.out.find(word), std::string::npos) << word;
    }
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  }
  const Parsed version = parse({"--version"});
  EXPECT_EQ(version.outcome.exit_code, exit_ok);
  EXPECT_EQ(version.out, "entropy_sweep 1.2.3\n");
}

TEST(Options, UnknownOptionsAndWordsAreRefused) {
  expect_bad({"--bogus", "3"}, {"--bogus", "--help"});
  expect_bad({"stray"}, {"stray"});
  expect_bad({"--loss", "kl"}, {"--loss", "'kl'", "reverse_kl"});
  expect_bad({"--loss", "reverse_kl,"}, {"--loss", "empty entry"});
  expect_bad({"--loss", ""}, {"--loss"});
  expect_bad({"--loss"}, {"--loss"});
  expect_bad({"--path", "fast"}, {"--path", "'fast'", "cluster"});
  expect_bad({"--type", "BF16"}, {"--type", "'BF16'", "bf16"});
  expect_bad({"--exchange", "ring"}, {"--exchange", "'ring'", "allgather"});
  expect_bad({"--pass", "forward,backward"}, {"--pass", "forward_backward"});
  expect_bad({"--comm", "gloo"}, {"--comm", "'gloo'", "nccl"});
  expect_bad({"--check=banana"}, {"check"});
}

TEST(Options, BadSizesAreRefused) {
  expect_bad({"--vocab", "0"}, {"--vocab", "'0'", "at least 1"});
  expect_bad({"--vocab", "12a"}, {"--vocab", "'12a'"});
  expect_bad({"--vocab", "1.5"}, {"--vocab", "'1.5'"});
  expect_bad({"--vocab", "99999999999999999999"}, {"--vocab"});
  expect_bad({"--rows", "-1"}, {"--rows", "'-1'", "at least 0"});
  expect_bad({"--rows", "4,,5"}, {"--rows", "empty entry"});
  expect_bad({"--block-cap", "0"}, {"--block-cap", "'0'"});
  expect_bad({"--repeat", "0"}, {"--repeat", "'0'", "1"});
  expect_bad({"--repeat", "nan"}, {"--repeat", "'nan'"});
  expect_bad({"--back-to-back", "0"}, {"--back-to-back", "'0'", "1"});
  expect_bad({"--back-to-back", "4", "--in-place"}, {"--back-to-back 4", "--in-place"});
  EXPECT_EQ(accepted({"--back-to-back", "4", "--graph"}).back_to_back, 4);
  EXPECT_TRUE(accepted({"--back-to-back", "4", "--graph"}).graph);
  EXPECT_EQ(accepted({"--memory-limit", "5000000000"}).memory_limit, 5000000000);
  expect_bad({"--memory-limit", "0"}, {"--memory-limit", "'0'", "at least 1"});
  expect_bad({"--memory-limit", "4G"}, {"--memory-limit", "'4G'"});
  expect_bad({"--repeat", "2", "--repeat", "3"}, {"--repeat", "once"});
  expect_bad({"--seed", "-1"}, {"--seed", "'-1'"});
  expect_bad({"--ignore-index", "x"}, {"--ignore-index", "'x'"});
  expect_bad({"--rows", "4611686018427387904", "--vocab", "4"}, {"--rows", "--vocab"});
}

TEST(Options, NanInfinityAndNonPositiveScalesAreRefused) {
  for (const char* option : {"--temperature", "--logit-scale", "--teacher-scale"}) {
    for (const char* value : {"nan", "NaN", "inf", "-inf", "infinity", "0", "-0.0", "-1", "1e400", "two", ""}) {
      expect_bad({option, value}, {option, "finite number above 0"});
    }
  }
  for (const char* value : {"nan", "inf", "-0.1", "1.1", "half"}) {
    expect_bad({"--jsd-beta", value}, {"--jsd-beta", std::string("'") + value + "'", "0 to 1"});
  }
  // Each finite by itself, not so as the float32 scale that the losses get.
  expect_bad({"--logit-scale", "1e30", "--temperature", "1e-30"}, {"--logit-scale", "float32"});
  expect_bad({"--teacher-scale", "1e-30", "--temperature", "1e30"}, {"--teacher-scale", "float32"});
}

TEST(Options, InputExcludesTheSizes) {
  EXPECT_EQ(accepted({"--input", "a,b"}).inputs, (std::vector<std::string>{"a", "b"}));
  expect_bad({"--input", "a", "--rows", "3"}, {"--rows", "--input"});
  expect_bad({"--vocab", "3", "--input", "a"}, {"--vocab", "--input"});
  expect_bad({"--input", "a,b,c"}, {"--input", "3 files"});
  expect_bad({"--input", ""}, {"--input"});
  expect_bad({"--input", "a", "--data", "peaked"}, {"--data", "peaked", "--input"});
  expect_bad({"--data", "flat"}, {"--data", "'flat'", "normal, peaked"});
  EXPECT_EQ(accepted({"--data", "peaked"}).data, Data::peaked);
}

TEST(Options, VariantsAreShapesOfTheLibrary) {
  vocabloss::ClusterShape shape;
  const std::string first = shape.describe();
  shape.width = 4;
  const std::string second = shape.describe();
  EXPECT_TRUE(accepted({}).variants.empty());
  EXPECT_EQ(accepted({"--variant", first, "--variant", second, "--variant", first}).variants,
            (std::vector<std::string>{first, second}));
  shape.width = 3;
  for (const std::string& text : {shape.describe(), first + " more", std::string("wide"), std::string()}) {
    try {
      vocabloss::ClusterShape::parse(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const vocabloss::InvalidArgument& error) {
      expect_bad({"--variant", text}, {"--variant", error.what()});
    }
  }
  expect_bad({"--dump", scratch("dump.safetensors"), "--variant", first, "--variant", second},
             {"--dump", "--variant", "2 values"});
}

TEST(Options, DumpNeedsOneCaseOfEachLoss) {
  const std::string file = scratch("dump.safetensors");
  EXPECT_EQ(accepted({"--dump", file, "--dump-grad", "--loss", "jsd,entropy", "--path", "team,team"}).dump, file);
  expect_bad({"--dump", file, "--path", "team,naive"}, {"--dump", "--path", "2 values"});
  expect_bad({"--dump", file, "--type", "bf16,fp32"}, {"--dump", "--type"});
  expect_bad({"--dump", file, "--block-cap", "1,2,3"}, {"--dump", "--block-cap", "3 values"});
  expect_bad({"--dump", file, "--exchange", "allgather,in_kernel"}, {"--dump", "--exchange"});
  expect_bad({"--dump", file, "--rows", "1,2"}, {"--dump", "--rows"});
  expect_bad({"--dump", file, "--vocab", "1,2"}, {"--dump", "--vocab"});
  expect_bad({"--dump-grad"}, {"--dump-grad", "--dump"});
  expect_bad({"--dump", file, "--dump-grad", "--pass", "forward"}, {"--dump-grad", "--pass"});
}

TEST(Options, OutputsAreCheckedBeforeTheRun) {
  EXPECT_EQ(accepted({}).tune, "");
  EXPECT_EQ(accepted({"--tune", scratch("tuning.json")}).tune, scratch("tuning.json"));
  expect_bad({"--tune", ""}, {"--tune"});
  expect_bad({"--tune", "/no/such/folder/x"}, {"--tune", "/no/such/folder"});
  expect_bad({"--tune", scratch("x.json"), "--json", scratch("x.json")}, {"--tune", "--json"});
  const std::string file = scratch("out.json");
  EXPECT_EQ(accepted({"--json", file, "--csv", scratch("out.csv")}).json, file);
  EXPECT_EQ(accepted({"--json", "/dev/null", "--csv", "/dev/null"}).csv, "/dev/null");
  expect_bad({"--json", scratch("missing/out.json")}, {"--json", "does not exist"});
  expect_bad({"--csv", testing::TempDir()}, {"--csv", "folder"});
  expect_bad({"--json", ""}, {"--json"});
  expect_bad({"--json", file, "--csv", file}, {"--json", "--csv", "own file"});
  const std::string input = scratch("in.safetensors");
  std::ofstream(input) << "x";
  expect_bad({"--input", input, "--dump", input}, {"--dump", "overwritten"});
}

}  // namespace
