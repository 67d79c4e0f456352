// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// The safetensors reader against files that lie, the writer, and the shipped sample.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "atomic_file.hpp"
#include "half_bits.hpp"
#include "safetensors.hpp"

namespace {

using namespace entropy_sweep;
namespace fs = std::filesystem;

std::string scratch(const std::string& name) { return (fs::path(testing::TempDir()) / name).string(); }

std::string file_of(const std::string& contents, const std::string& name = "case.safetensors") {
  const std::string path = scratch(name);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
  return path;
}

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + rest;
}

std::string with_header(const std::string& header, std::size_t data_bytes) {
  return with_length(header.size(), header + std::string(data_bytes, '\1'));
}

/// Opening `contents` throws, and the message names the file and each of `words`.
void expect_refused(const std::string& contents, const std::vector<std::string>& words) {
  const std::string path = file_of(contents);
  try {
    const SafetensorsFile file(path);
    FAIL() << "accepted: " << contents.substr(0, 200);
  } catch (const SafetensorsError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(path), std::string::npos) << message;
    for (const std::string& word : words)
      EXPECT_NE(message.find(word), std::string::npos) << message << "; no: " << word;
  }
}

template <class Value>
Tensor view(const std::string& name, Dtype dtype, std::vector<std::int64_t> shape, const std::vector<Value>& values) {
  return {name, dtype, std::move(shape), std::as_bytes(std::span(values))};
}

TEST(Safetensors, WritesWhatItReads) {
  const std::vector<float> f32{1.5f, -2, INFINITY, 0, 3, 4};
  const std::vector<double> f64{1e300, -0.0};
  const std::vector<std::int64_t> i64{-100, INT64_MAX};
  const std::vector<std::int32_t> i32{-1, 2, 3};
  const std::vector<std::uint8_t> u8{0, 1, 255};
  const std::vector<std::uint16_t> bf16{0x3f80, 0xc000};
  const std::vector<std::uint16_t> f16{0x3c00, 0x0001};
  const std::vector<float> none;
  const std::string path = scratch("round.safetensors");
  write_safetensors(
      path,
      {view("mask", Dtype::boolean, {3}, u8), view("x", Dtype::f32, {2, 3}, f32), view("a", Dtype::f64, {2}, f64),
       view("b", Dtype::i64, {2}, i64), view("c", Dtype::i32, {3}, i32), view("d", Dtype::u8, {3, 1}, u8),
       view("e", Dtype::bf16, {2}, bf16), view("f", Dtype::f16, {2}, f16), view("empty", Dtype::f32, {0, 7}, none)},
      {{"made by", "a \"test\""}});
  EXPECT_FALSE(fs::exists(path + ".tmp"));

  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), 9u);
  EXPECT_TRUE(file.contains("x"));
  EXPECT_FALSE(file.contains("__metadata__"));
  EXPECT_EQ(file.tensor("x").dtype, Dtype::f32);
  EXPECT_EQ(file.tensor("x").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(to_doubles(file.tensor("x")), std::vector<double>(f32.begin(), f32.end()));
  EXPECT_EQ(to_doubles(file.tensor("a")), f64);
  EXPECT_EQ(to_integers(file.tensor("b")), i64);
  EXPECT_EQ(to_integers(file.tensor("c")), (std::vector<std::int64_t>{-1, 2, 3}));
  EXPECT_EQ(to_integers(file.tensor("d")), (std::vector<std::int64_t>{0, 1, 255}));
  EXPECT_EQ(to_integers(file.tensor("mask")), (std::vector<std::int64_t>{0, 1, 255}));
  EXPECT_EQ(to_doubles(file.tensor("e")), (std::vector<double>{1, -2}));
  EXPECT_EQ(to_doubles(file.tensor("f")), (std::vector<double>{1, std::ldexp(1.0, -24)}));
  EXPECT_EQ(file.tensor("empty").elements(), 0);
  EXPECT_THROW(to_integers(file.tensor("x")), SafetensorsError);
  for (const Tensor& tensor : file.tensors()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % size_of(tensor.dtype), 0u) << tensor.name;
  }
}

TEST(Safetensors, AskingForWhatIsNotThereNamesWhatIs) {
  const SafetensorsFile file(
      file_of(with_header(R"({"student":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", 2)));
  try {
    file.tensor("teacher");
    FAIL();
  } catch (const SafetensorsError& error) {
    const std::string message = error.what();
    for (const char* word : {"teacher", "student", "case.safetensors"}) {
      EXPECT_NE(message.find(word), std::string::npos) << message;
    }
  }
  EXPECT_THROW(file.tensor("student"), SafetensorsError);  // in the file, but of a type without a reader
}

TEST(Safetensors, UnalignedDataAreRead) {
  // One blank after the header puts the doubles at an odd address.
  const std::string header = R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  for (std::size_t pad = 0; pad < 8; ++pad) {
    std::string contents = with_length(header.size() + pad, header + std::string(pad, ' '));
    const double value = 2.5;
    contents.append(reinterpret_cast<const char*>(&value), 8);
    EXPECT_EQ(to_doubles(SafetensorsFile(file_of(contents)).tensor("a")), std::vector<double>{2.5});
  }
}

TEST(Safetensors, NoFile) {
  EXPECT_THROW(SafetensorsFile(scratch("no such file")), SafetensorsError);
  EXPECT_THROW(SafetensorsFile(testing::TempDir()), SafetensorsError);
  EXPECT_THROW(SafetensorsFile("/dev/zero"), SafetensorsError);
}

TEST(Safetensors, BadHeaderLengths) {
  expect_refused("", {"0 bytes"});
  expect_refused("1234567", {"7 bytes"});
  expect_refused(with_length(3, "{}"), {"length 3", "2 bytes", "truncated"});
  expect_refused(with_length(std::uint64_t{1} << 63, "{}"), {"9223372036854775808", "limit"});
  expect_refused(with_length(UINT64_MAX, "{}"), {"limit"});
  expect_refused(with_length(UINT64_MAX - 7, "{}"), {"limit"});
  expect_refused(with_length(0, ""), {"JSON"});
}

TEST(Safetensors, BadHeaders) {
  expect_refused(with_header("[]", 0), {"array", "object"});
  expect_refused(with_header("7", 0), {"number"});
  expect_refused(with_header("{", 0), {"JSON"});
  expect_refused(with_header("{} x", 0), {"JSON"});
  expect_refused(with_header("{\"a\xff\":1}", 0), {"JSON"});
  expect_refused(with_header(std::string(1'000'000, '['), 0), {"nested"});
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_refused(with_header(objects, 0), {"nested"});
  expect_refused(with_header(R"({"a":3})", 0), {"'a'", "number"});
  expect_refused(with_header(R"({"a":{}})", 0), {"'a'", "dtype"});
  expect_refused(with_header(R"({"a":{"dtype":"F32","shape":[1]}})", 4), {"'a'", "data_offsets"});
  expect_refused(with_header(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), {"'a'", "shape"});
  expect_refused(with_header(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4), {"'a'", "dtype"});
  expect_refused(with_header(R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4), {"'a'", "shape"});
}

TEST(Safetensors, NamesGivenTwice) {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  expect_refused(with_header(R"({"a":)" + entry + R"(,"b":)" + entry + R"(,"a":)" + entry + "}", 1), {"'a'", "twice"});
  expect_refused(with_header(R"({"a":{"dtype":"U8","dtype":"I32","shape":[1],"data_offsets":[0,1]}})", 1),
                 {"'dtype'", "twice"});
  // The same key in two tensors, and in the metadata, is as it should be.
  const SafetensorsFile file(file_of(with_header(
      R"({"__metadata__":{"a":"x","dtype":"y"},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
      2)));
  EXPECT_EQ(file.tensors().size(), 2u);
}

TEST(Safetensors, BadShapesAndOffsets) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  expect_refused(with_header(entry("F32", "[2]", "[0,4]"), 4), {"'a'", "2 elements", "4 bytes"});
  expect_refused(with_header(entry("F32", "[2]", "[0,8]"), 4), {"'a'", "byte 8", "4 bytes", "truncated"});
  expect_refused(with_header(entry("F32", "[1]", "[0,4]"), 5), {"byte 4", "5 bytes"});
  expect_refused(with_header(entry("F32", "[1]", "[4,8]"), 8), {"'a'", "byte 4"});
  expect_refused(with_header(entry("F32", "[1]", "[4,0]"), 8), {"'a'", "backwards"});
  expect_refused(with_header(entry("F32", "[1]", "[-4,0]"), 8), {"'a'", "-4"});
  expect_refused(with_header(entry("F32", "[1]", "[0]"), 4), {"'a'", "two numbers"});
  expect_refused(with_header(entry("F32", "[1]", "[0,4,8]"), 4), {"'a'", "two numbers"});
  expect_refused(with_header(entry("F32", "[1]", "[0.0,4]"), 4), {"'a'", "0.0"});
  expect_refused(with_header(entry("F32", "[-1]", "[0,4]"), 4), {"'a'", "-1"});
  expect_refused(with_header(entry("F32", "[\"1\"]", "[0,4]"), 4), {"'a'", "shape"});
  expect_refused(with_header(entry("F32", "[1e9]", "[0,4]"), 4), {"'a'", "shape"});
  expect_refused(with_header(entry("U8", "[4294967296,4294967296]", "[0,0]"), 0), {"'a'", "4294967296"});
  expect_refused(with_header(entry("F64", "[2305843009213693952]", "[0,0]"), 0), {"'a'", "2305843009213693952"});
  expect_refused(with_header(entry("U8", "[18446744073709551615]", "[0,1]"), 1), {"'a'"});
  expect_refused(with_header(entry("U8", "[99999999999999999999999]", "[0,1]"), 1), {"'a'"});
  expect_refused(with_header(entry("U8", "[1]", "[18446744073709551615,18446744073709551615]"), 1), {"'a'"});
  // Two tensors over the same bytes, and a hole between two.
  const std::string one = R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  const std::string overlap = R"({"dtype":"U8","shape":[2],"data_offsets":[1,3]})";
  const std::string after_hole = R"({"dtype":"U8","shape":[2],"data_offsets":[3,5]})";
  expect_refused(with_header(R"({"a":)" + one + R"(,"b":)" + overlap + "}", 3), {"'b'", "byte 1", "2"});
  expect_refused(with_header(R"({"a":)" + one + R"(,"b":)" + after_hole + "}", 5), {"'b'", "byte 3", "2"});
}

TEST(Safetensors, DamagedFilesNeverCrash) {
  const std::vector<float> values(12, 1.0f);
  const std::string path = scratch("whole.safetensors");
  write_safetensors(path, {view("student", Dtype::f32, {3, 4}, values)});
  std::ifstream stream(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), {});
  for (std::size_t length = 0; length < whole.size(); ++length) expect_refused(whole.substr(0, length), {});
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string damaged = whole;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int j = 0; j < changes; ++j) damaged[random() % (whole.size() - 48)] = static_cast<char>(random() % 256);
    try {
      const SafetensorsFile file(file_of(damaged));
      for (const Tensor& tensor : file.tensors()) {
        if (tensor.dtype != Dtype::other) to_doubles(tensor);
      }
    } catch (const SafetensorsError&) {
    }
  }
}

TEST(Safetensors, NothingIsHalfWritten) {
  const std::vector<float> values{1, 2};
  const std::string path = scratch("kept.safetensors");
  write_safetensors(path, {view("old", Dtype::f32, {2}, values)});
  EXPECT_THROW(write_safetensors(path, {view("new", Dtype::f32, {3}, values)}), SafetensorsError);
  EXPECT_THROW(write_safetensors(path, {view("new", Dtype::f32, {2}, values), view("new", Dtype::f32, {2}, values)}),
               SafetensorsError);
  EXPECT_TRUE(SafetensorsFile(path).contains("old"));
  EXPECT_FALSE(fs::exists(path + ".tmp"));
  EXPECT_THROW(write_safetensors(scratch("missing folder/x"), {}), FileError);
  {
    AtomicFile unfinished(path);
    unfinished.write("half");
  }
  EXPECT_TRUE(SafetensorsFile(path).contains("old"));
  EXPECT_FALSE(fs::exists(path + ".tmp"));
}

TEST(Safetensors, LinksAreFollowedAndDevicesLeftInPlace) {
  const std::string target = scratch("target.txt");
  const std::string link = scratch("link.txt");
  write_file(target, "old");
  fs::remove(link);
  fs::create_symlink(target, link);
  write_file(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  std::ifstream stream(target);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(stream)), {}), "new");
  write_file("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(HalfBits, AllPatternsSurviveTheWayToFloatAndBack) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const auto f16 = static_cast<float>(fp16_to_double(bits));
    const auto bf16 = static_cast<float>(bf16_to_double(bits));
    if (std::isnan(f16)) {
      EXPECT_TRUE(std::isnan(fp16_to_double(fp16_from_float(f16)))) << pattern;
    } else {
      EXPECT_EQ(fp16_from_float(f16), bits) << pattern;
    }
    if (std::isnan(bf16)) {
      EXPECT_TRUE(std::isnan(bf16_to_double(bf16_from_float(bf16)))) << pattern;
    } else {
      EXPECT_EQ(bf16_from_float(bf16), bits) << pattern;
    }
  }
}

TEST(HalfBits, TiesGoToEven) {
  EXPECT_EQ(fp16_from_float(1 + 1.0f / 2048), 0x3c00);
  EXPECT_EQ(fp16_from_float(1 + 3.0f / 2048), 0x3c02);
  EXPECT_EQ(fp16_from_float(65519), 0x7bff);
  EXPECT_EQ(fp16_from_float(65520), 0x7c00);
  EXPECT_EQ(fp16_from_float(std::ldexp(1.0f, -25)), 0x0000);
  EXPECT_EQ(fp16_from_float(std::ldexp(1.5f, -25)), 0x0001);
  EXPECT_EQ(fp16_from_float(-std::ldexp(2047.0f, -25)), 0x8400);  // rounds up into the normal range
  EXPECT_EQ(bf16_from_float(1 + 1.0f / 256), 0x3f80);
  EXPECT_EQ(bf16_from_float(1 + 3.0f / 256), 0x3f82);
  EXPECT_EQ(bf16_from_float(3.4e38f), 0x7f80);
}

TEST(Sample, HoldsTheRowsThatItPromises) {
  const char* folder = std::getenv("VOCABLOSS_SAMPLE_DIR");
  if (folder == nullptr) GTEST_SKIP() << "VOCABLOSS_SAMPLE_DIR is not set";
  const SafetensorsFile student((fs::path(folder) / "student-32k-16.safetensors").string());
  const SafetensorsFile teacher((fs::path(folder) / "teacher-32k-16.safetensors").string());
  const SafetensorsFile expected((fs::path(folder) / "expected-32k-16.safetensors").string());
  const std::vector<std::int64_t> shape{16, 32768};
  EXPECT_EQ(student.tensor("student").shape, shape);
  EXPECT_EQ(student.tensor("student").dtype, Dtype::bf16);
  EXPECT_EQ(teacher.tensor("teacher").shape, shape);
  const auto rows = to_integers(expected.tensor("source_rows"));
  for (const std::int64_t row : {0, 7, 16, 17, 18, 159}) {
    EXPECT_NE(std::find(rows.begin(), rows.end(), row), rows.end()) << row;
  }
  const auto mask = to_integers(student.tensor("mask"));
  EXPECT_NE(std::count(mask.begin(), mask.end(), 0), 0);
  EXPECT_NE(std::count(mask.begin(), mask.end(), 1), 0);

  // The textbook formula on the stored logits gives the stored label cross-entropy: rows and labels belong together.
  const auto logits = to_doubles(student.tensor("student"));
  const auto labels = to_integers(student.tensor("labels"));
  const auto values = to_doubles(expected.tensor("cross_entropy_label"));
  for (std::size_t row = 0; row < 16; ++row) {
    const double* x = logits.data() + row * 32768;
    const double largest = *std::max_element(x, x + 32768);
    double sum = 0;
    for (int j = 0; j < 32768; ++j) sum += std::exp(x[j] - largest);
    EXPECT_NEAR(largest + std::log(sum) - x[labels[row]], values[row], 1e-10 * std::max(1.0, values[row])) << row;
  }
  for (const char* name : {"grad_reverse_kl_row0", "grad_entropy_row7", "grad_jsd_0.5_row159"}) {
    EXPECT_EQ(expected.tensor(name).shape, std::vector<std::int64_t>{32768}) << name;
  }
}

}  // namespace
