// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Files of logits: what they must hold for the losses asked for. And the way back: dumps.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dump.hpp"
#include "input.hpp"
#include "memory.hpp"
#include "safetensors.hpp"

namespace {

using namespace entropy_sweep;

std::string scratch(const std::string& name) {
  return (std::filesystem::path(testing::TempDir()) / ("input_" + name)).string();
}

template <class Value>
Tensor view(const std::string& name, Dtype dtype, std::vector<std::int64_t> shape, const std::vector<Value>& values) {
  return {name, dtype, std::move(shape), std::as_bytes(std::span(values))};
}

const std::vector<std::uint16_t> halves(6, 0x3c00);
const std::vector<float> floats(6, 1.5f);
const std::vector<double> doubles(6, 2.5);
const std::vector<std::int64_t> labels{0, -100};
const std::vector<std::int32_t> short_labels{2, 1};
const std::vector<std::uint8_t> mask{7, 0};

Options options_for(const std::vector<Tensor>& first, const std::vector<Tensor>& second, std::vector<Loss> losses) {
  Options options;
  options.losses = std::move(losses);
  options.inputs = {scratch("a.safetensors")};
  write_safetensors(options.inputs[0], first);
  if (!second.empty()) {
    options.inputs.push_back(scratch("b.safetensors"));
    write_safetensors(options.inputs[1], second);
  }
  return options;
}

void expect_refused(const Options& options, const std::vector<std::string>& words) {
  try {
    const InputData input(options);
    FAIL() << "accepted, without " << words.front();
  } catch (const SafetensorsError& error) {
    const std::string message = error.what();
    for (const std::string& word : words)
      EXPECT_NE(message.find(word), std::string::npos) << message << "; no: " << word;
  }
}

TEST(Input, TwoFilesMakeOneProblem) {
  const InputData input(options_for({view("student", Dtype::bf16, {2, 3}, halves),
                                     view("labels", Dtype::i64, {2}, labels), view("mask", Dtype::u8, {2}, mask)},
                                    {view("teacher", Dtype::bf16, {2, 3}, halves)},
                                    {Loss::reverse_kl, Loss::cross_entropy}));
  EXPECT_EQ(input.shape().rows, 2);
  EXPECT_EQ(input.shape().vocab, 3);
  EXPECT_EQ(input.shape().type, ValueType::bf16);
  EXPECT_FALSE(input.shape().teacher.has_value());
  EXPECT_EQ(input.labels(), labels);
  EXPECT_EQ(input.mask(), (std::vector<std::uint8_t>{1, 0}));
  ASSERT_NE(input.teacher(), nullptr);
  EXPECT_NE(input.name().find("a.safetensors,"), std::string::npos);
}

TEST(Input, ShortLabelsAndNoRows) {
  const std::vector<float> none;
  const std::vector<std::int32_t> no_labels;
  EXPECT_EQ(InputData(options_for(
                          {view("student", Dtype::f32, {2, 3}, floats), view("labels", Dtype::i32, {2}, short_labels)},
                          {}, {Loss::log_prob}))
                .labels(),
            (std::vector<std::int64_t>{2, 1}));
  const InputData empty(options_for(
      {view("student", Dtype::f32, {0, 3}, none), view("labels", Dtype::i32, {0}, no_labels)}, {}, {Loss::log_prob}));
  EXPECT_EQ(empty.shape().rows, 0);
}

TEST(Input, ATeacherOfAnotherTypeIsKeptAsFloat) {
  const auto student = view("student", Dtype::f16, {2, 3}, halves);
  Options options = options_for({student, view("teacher", Dtype::f32, {2, 3}, floats)}, {}, {Loss::jsd});
  EXPECT_EQ(InputData(options).shape().teacher, ValueType::fp32);
  options.type_given = true;
  EXPECT_FALSE(InputData(options).shape().teacher.has_value());
  const auto wide = view("student", Dtype::f64, {2, 3}, doubles);
  EXPECT_FALSE(InputData(options_for({wide, view("teacher", Dtype::f32, {2, 3}, floats)}, {}, {Loss::jsd}))
                   .shape()
                   .teacher.has_value());
}

TEST(Input, MissingTensorsAreNamedWithTheLossThatNeedsThem) {
  const auto student = view("student", Dtype::f32, {2, 3}, floats);
  expect_refused(options_for({view("teacher", Dtype::f32, {2, 3}, floats)}, {}, {Loss::z_loss}), {"'student'"});
  expect_refused(options_for({student}, {}, {Loss::z_loss, Loss::forward_kl}), {"'teacher'", "forward_kl"});
  expect_refused(options_for({student}, {}, {Loss::log_prob_entropy}), {"'labels'", "log_prob_entropy"});
  EXPECT_NO_THROW(InputData(options_for({student}, {}, {Loss::z_loss, Loss::entropy})));
}

TEST(Input, ShapesAndTypesMustFit) {
  const auto student = view("student", Dtype::f32, {2, 3}, floats);
  const std::vector<float> none;
  const auto make = [&](const Tensor& other) { return options_for({student, other}, {}, {Loss::entropy}); };
  expect_refused(options_for({view("student", Dtype::f32, {6}, floats)}, {}, {Loss::entropy}), {"'student'", "[6]"});
  expect_refused(options_for({view("student", Dtype::f32, {6, 0}, none)}, {}, {Loss::entropy}),
                 {"'student'", "[6, 0]"});
  expect_refused(options_for({view("student", Dtype::i64, {1, 2}, labels)}, {}, {Loss::entropy}), {"'student'", "I64"});
  expect_refused(make(view("teacher", Dtype::f32, {3, 2}, floats)), {"'teacher'", "[3, 2]", "[2, 3]"});
  expect_refused(make(view("teacher", Dtype::i32, {2, 3}, std::vector<std::int32_t>(6))), {"'teacher'", "I32"});
  expect_refused(make(view("labels", Dtype::i64, {2, 1}, labels)), {"'labels'", "[2, 1]", "[2]"});
  expect_refused(make(view("labels", Dtype::f64, {2}, std::vector<double>(2))), {"'labels'", "F64"});
  expect_refused(make(view("mask", Dtype::i64, {2}, labels)), {"'mask'", "I64"});
  expect_refused(make(view("mask", Dtype::u8, {3}, std::vector<std::uint8_t>(3))), {"'mask'", "[3]"});
  expect_refused(options_for({student}, {student}, {Loss::entropy}), {"'student'", "both"});
}

TEST(Dump, HoldsLossesAndGradientsByName) {
  Dump dump(2, 3);
  dump.add_losses(Loss::jsd, {{0.5, 1.5}});
  dump.add_losses(Loss::log_prob_entropy, {{-1, -2}, {4, 5}});
  dump.add_gradient(Loss::jsd, {1, 2, 3, 4, 5, 6});
  const std::string path = scratch("dump.safetensors");
  dump.write(path);
  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensor("loss_jsd").dtype, Dtype::f64);
  EXPECT_EQ(to_doubles(file.tensor("loss_jsd")), (std::vector<double>{0.5, 1.5}));
  EXPECT_EQ(to_doubles(file.tensor("loss_log_prob_entropy")), (std::vector<double>{3, 3}));
  EXPECT_EQ(to_doubles(file.tensor("loss_log_prob_entropy.log_prob")), (std::vector<double>{-1, -2}));
  EXPECT_EQ(to_doubles(file.tensor("loss_log_prob_entropy.entropy")), (std::vector<double>{4, 5}));
  EXPECT_EQ(file.tensor("grad_jsd").dtype, Dtype::f32);
  EXPECT_EQ(file.tensor("grad_jsd").shape, (std::vector<std::int64_t>{2, 3}));
}

TEST(Memory, IsReadFromTheSystemsText) {
  const std::string text = "MemTotal:       100 kB\nMemAvailable:    50 kB\nBroken: x\n";
  EXPECT_EQ(meminfo_bytes(text, "MemAvailable"), 50 * 1024);
  EXPECT_EQ(meminfo_bytes(text, "Mem"), -1);
  EXPECT_EQ(meminfo_bytes(text, "Broken"), -1);
  EXPECT_GT(available_host_memory(), 0);
}

}  // namespace
