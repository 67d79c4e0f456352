// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// What is wrong with a call is said in words: the argument, what was found, what to do. Every message below is part of
// the library's behaviour.

#include <gtest/gtest.h>

#include <vocabloss/vocabloss.hpp>

#include <limits>
#include <string>

namespace {

using namespace vocabloss;
using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;
using Matrix = Kokkos::View<float**, Kokkos::LayoutRight, Memory>;
using Vector = Kokkos::View<float*, Memory>;
using Labels = Kokkos::View<std::int64_t*, Memory>;
using CrossEntropyPlan = Plan<loss::CrossEntropy, float>;
using ReverseKlPlan = Plan<loss::ReverseKl, float>;

/// The message of the exception that `call` throws.
template <class Exception, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.what();
  }
  return "(nothing was thrown)";
}

void expect_words(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
  }
}

struct Errors : ::testing::Test {
  Matrix x{"x", 4, 8}, t{"t", 4, 8}, dx{"dx", 4, 8};
  Vector losses{"losses", 4};
  Labels labels{"labels", 4};

  Batch<float> batch() const {
    Batch<float> batch;
    batch.logits(x).teacher(t).labels(labels).losses(losses).gradient(dx);
    return batch;
  }
  void expect_refused(const Batch<float>& batch, std::initializer_list<const char*> words) {
    expect_words(message_of<InvalidArgument>([&] { batch.problem(); }), words);
    expect_words(message_of<InvalidArgument>([&] { CrossEntropyPlan(Exec(), batch); }), words);
  }
};

TEST_F(Errors, MissingLogits) { expect_refused(Batch<float>().gradient(dx), {"logits", "Batch::logits"}); }

TEST_F(Errors, WrongExtents) {
  expect_refused(batch().teacher(Matrix("t", 4, 9)), {"teacher", "[4, 9]", "[4, 8]"});
  expect_refused(batch().gradient(Matrix("g", 5, 8)), {"gradient", "[5, 8]", "[4, 8]"});
  expect_refused(batch().labels(Labels("l", 3)), {"labels", "3 rows", "4"});
  expect_refused(batch().losses(Vector("l", 5)), {"losses", "5 rows", "4"});
  expect_refused(batch().row_weights(Vector("w", 2)), {"row_weights", "2 rows", "4"});
  expect_refused(batch().upstream(Vector("u", 1)), {"upstream", "1 rows", "4"});
  expect_refused(batch().mask(Kokkos::View<bool*, Memory>("m", 6)), {"mask", "6 rows", "4"});
}

TEST_F(Errors, NoColumns) { expect_refused(Batch<float>().logits(Matrix("x", 4, 0)), {"columns 0", "vocab 0"}); }

TEST_F(Errors, Strides) {
  const Kokkos::View<float**, Kokkos::LayoutLeft, Memory> left("left", 4, 8);
  expect_words(message_of<InvalidArgument>([&] { Batch<float>().logits(left); }),
               {"logits", "column stride 4", "contiguous"});
  using Strided = Kokkos::View<float**, Kokkos::LayoutStride, Memory>;
  const Strided overlapping(x.data(), Kokkos::LayoutStride(4, 7, 8, 1));
  expect_words(message_of<InvalidArgument>([&] { Batch<float>().teacher(overlapping); }),
               {"teacher", "row stride 7", "8 columns"});
}

TEST_F(Errors, OverlappingMemory) {
  expect_refused(batch().gradient(t), {"gradient", "overlaps", "teacher"});
  Batch<float> one_row_on;
  one_row_on.logits(Matrix(x.data(), 3, 8)).gradient(Matrix(x.data() + 8, 3, 8));
  expect_refused(one_row_on, {"gradient", "overlaps", "logits"});
  expect_refused(batch().losses(Vector(dx.data() + 3, 4)), {"gradient", "overlaps", "losses"});
  expect_refused(batch().accumulate_gradient(x), {"gradient", "accumulated", "logits"});
}

/// In place, and halves of one wide buffer, are no overlap.
TEST_F(Errors, InterleavedRowsAreNoOverlap) {
  EXPECT_NO_THROW(batch().gradient(x).problem());
  const Matrix wide("wide", 4, 16);
  using Strided = Kokkos::View<float**, Kokkos::LayoutStride, Memory>;
  const Strided first(wide.data(), Kokkos::LayoutStride(4, 16, 8, 1));
  const Strided second(wide.data() + 8, Kokkos::LayoutStride(4, 16, 8, 1));
  EXPECT_NO_THROW(Batch<float>().logits(first).gradient(second).problem());
  const Strided shifted(wide.data() + 7, Kokkos::LayoutStride(4, 16, 8, 1));
  EXPECT_THROW(Batch<float>().logits(first).gradient(shifted).problem(), InvalidArgument);
}

TEST_F(Errors, MissingTeacherAndLabels) {
  Batch<float> bare;
  bare.logits(x).losses(losses).gradient(dx);
  expect_words(message_of<InvalidArgument>([&] { ReverseKlPlan(Exec(), bare); }), {"teacher", "Batch::teacher"});
  const CrossEntropyPlan plan(Exec(), bare);
  expect_words(message_of<InvalidArgument>([&] { plan.forward(Exec(), bare); }), {"label", "Batch::labels"});
}

TEST_F(Errors, Options) {
  const auto refused = [&](auto set, std::initializer_list<const char*> words) {
    LossOptions options;
    set(options);
    expect_words(message_of<InvalidArgument>([&] { ReverseKlPlan(Exec(), batch(), options); }), words);
  };
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    const std::string text = std::to_string(bad);
    refused([&](auto& options) { options.temperature = bad; }, {"temperature", text.c_str()});
    refused([&](auto& options) { options.logit_scale = bad; }, {"logit_scale", text.c_str()});
    refused([&](auto& options) { options.teacher_scale = bad; }, {"teacher_scale", text.c_str()});
  }
  for (const double bad : {-0.1, 1.5, std::nan("")}) {
    refused([&](auto& options) { options.jsd_beta = bad; }, {"jsd_beta", std::to_string(bad).c_str()});
  }
}

TEST_F(Errors, Divisor) {
  for (const double bad : {0.0, -2.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    expect_words(message_of<InvalidArgument>([&] { Batch<float>().divisor(bad); }),
                 {"divisor", std::to_string(bad).c_str()});
  }
}

TEST_F(Errors, Outputs) {
  for (const int bad : {2, -1}) {
    volatile int output = bad;  // else the compiler follows the bad index past the exception, and warns
    const std::string text = std::to_string(bad);
    expect_words(message_of<InvalidArgument>([&] { Batch<float>().losses(losses, output); }), {"output", text.c_str()});
    expect_words(message_of<InvalidArgument>([&] { Batch<float>().upstream(1.0, output); }), {"output", text.c_str()});
  }
}

TEST_F(Errors, AnotherBatchThanThePlanWasMadeFor) {
  const CrossEntropyPlan plan(Exec(), batch());
  const auto message = [&](const Batch<float>& other) {
    return message_of<InvalidArgument>([&] { plan.forward_backward(Exec(), other); });
  };
  Batch<float> longer, wider, without, other;
  longer.logits(Matrix("x", 5, 8)).teacher(Matrix("t", 5, 8)).labels(Labels("l", 5)).gradient(Matrix("g", 5, 8));
  expect_words(message(longer), {"5 rows", "at most 4"});
  wider.logits(Matrix("x", 4, 9)).teacher(Matrix("t", 4, 9)).labels(labels).gradient(Matrix("g", 4, 9));
  expect_words(message(wider), {"9 columns", "8"});
  without.logits(x).teacher(t).labels(labels);
  expect_words(message(without), {"gradient", "Batch::gradient"});
  other.logits(x).labels(labels).gradient(dx);  // no teacher, where the plan's batch had one
  expect_words(message(other), {"teacher", "otherwise than the plan"});
  expect_words(message(batch().accumulate_gradient(dx)), {"gradient", "otherwise than the plan"});
  // This call runs, and a Batch holds pointers: its Views must live.
  const Matrix two_rows("x", 2, 8), of_teacher("t", 2, 8), to("g", 2, 8);
  const Labels two_labels("l", 2);
  Batch<float> shorter;
  shorter.logits(two_rows).teacher(of_teacher).labels(two_labels).gradient(to);
  EXPECT_NO_THROW(plan.forward_backward(Exec(), shorter));
}

TEST_F(Errors, StatisticsOfAnotherShape) {
  const CrossEntropyPlan plan(Exec(), batch());
  Batch<float> other = batch();
  other.statistics(Matrix("s", 4, CrossEntropyPlan::statistics_per_row + 1));
  const std::string needed = std::to_string(CrossEntropyPlan::statistics_per_row);
  expect_words(message_of<InvalidArgument>([&] { plan.forward(Exec(), other); }),
               {"statistics", "[4, ", needed.c_str()});
}

TEST_F(Errors, Partitions) {
  expect_words(message_of<InvalidArgument>([&] {
                 batch().partition({16, 10, 8});
               }),
               {"first 10", "columns 8", "vocab 16"});
  Batch<float> shard = batch();
  shard.partition({16, 8, 8});
  expect_words(message_of<InvalidArgument>([&] { CrossEntropyPlan(Exec(), shard); }),
               {"columns 8 to 16", "vocabulary of 16"});
  Batch<float> gathered = batch();
  gathered.partition({16, 0, 4});
  expect_words(message_of<InvalidArgument>([&] { CrossEntropyPlan(Exec(), gathered); }), {"8 columns", "4", "shard"});
}

TEST_F(Errors, PathsThatRefuse) {
  for (const Path path : {Path::cluster, Path::split}) {
    const std::string reason = CrossEntropyPlan::refusal(path, batch());
    if (reason.empty()) continue;  // a GPU that has it
    expect_words(reason, {name_of(path).data()});
    expect_words(message_of<PathRefused>([&] { CrossEntropyPlan(Exec(), batch(), {}, {.path = path}); }),
                 {name_of(path).data()});
  }
  expect_words(message_of<InvalidArgument>([&] { CrossEntropyPlan(Exec(), batch(), {}, {.block_cap = -1}); }),
               {"block_cap", "-1"});
  for (const Path path : {Path::team, Path::automatic}) {  // nothing would come of it
    const PlanRequest request{.path = path, .variant = "width=2 ahead=0 threads=256 vectors=2 blocks=1"};
    expect_words(message_of<InvalidArgument>([&] { CrossEntropyPlan(Exec(), batch(), {}, request); }),
                 {"variant", "width=2", name_of(path).data(), "path cluster"});
  }
  EXPECT_EQ(CrossEntropyPlan::refusal(Path::team, batch()), "");
}

}  // namespace
