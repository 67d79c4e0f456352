// SPDX-License-Identifier: BSD-3-Clause
// SPDX-FileCopyrightText: VocabLoss contributors

// Conversions of the 16-bit types, every bit pattern and every rounding boundary of them; error bounds of exp2 and
// log2.

#include <vocabloss/loss/math.hpp>
#include <vocabloss/types.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

#include "support/compare.hpp"

namespace {

using namespace test;
using vocabloss::bfloat16;
using vocabloss::float16;
using vocabloss::narrow;
using vocabloss::widen;

/// The value of a pattern with `fraction_bits` stored bits and the exponent bias of its format, by definition.
double value_of(int bits, int fraction_bits, int bias) {
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 2 * bias + 1) return fraction ? not_a_number : sign * infinity;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

template <class T>
struct Format;
template <>
struct Format<bfloat16> {
  static constexpr int fraction_bits = 7, bias = 127, infinity_bits = 0x7f80;
};
template <>
struct Format<float16> {
  static constexpr int fraction_bits = 10, bias = 15, infinity_bits = 0x7c00;
};

template <class T>
struct HalfTypes : ::testing::Test {
  static double value(int bits) { return value_of(bits, Format<T>::fraction_bits, Format<T>::bias); }
  static T of(int bits) { return T{static_cast<std::uint16_t>(bits)}; }
};
using Halves = ::testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(HalfTypes, Halves);

TYPED_TEST(HalfTypes, EveryPatternWidensExactlyAndComesBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float wide = widen(this->of(bits));
    ASSERT_TRUE(within(wide, this->value(bits), 0)) << std::hex << bits << " became " << wide;
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0 || (std::isnan(wide) && std::signbit(wide)));
    const int back = narrow<TypeParam>(wide).bits;
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(widen(this->of(back)))) << std::hex << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

/// Between neighbours: the midpoint goes to the even one, all else to the nearer. The last midpoint goes to infinity.
TYPED_TEST(HalfTypes, EveryBoundaryRoundsToNearestEven) {
  for (int bits = 0; bits < Format<TypeParam>::infinity_bits; ++bits) {
    const double below = this->value(bits);
    const int next = bits + 1;
    const double step = std::isinf(this->value(next)) ? below - this->value(bits - 1) : this->value(next) - below;
    const float midpoint = static_cast<float>(below + step / 2);
    ASSERT_EQ(midpoint, below + step / 2) << "a midpoint is exact in float";
    for (const int sign : {0, 0x8000}) {
      const float factor = sign ? -1.0f : 1.0f;
      ASSERT_EQ(narrow<TypeParam>(factor * midpoint).bits, sign | (bits % 2 == 0 ? bits : next));
      ASSERT_EQ(narrow<TypeParam>(factor * std::nextafterf(midpoint, 0.0f)).bits, sign | bits);
      ASSERT_EQ(narrow<TypeParam>(factor * std::nextafterf(midpoint, HUGE_VALF)).bits, sign | next);
    }
  }
}

TYPED_TEST(HalfTypes, SpecialFloats) {
  const int top = Format<TypeParam>::infinity_bits;
  EXPECT_EQ(narrow<TypeParam>(HUGE_VALF).bits, top);
  EXPECT_EQ(narrow<TypeParam>(-HUGE_VALF).bits, 0x8000 | top);
  EXPECT_EQ(narrow<TypeParam>(std::numeric_limits<float>::max()).bits, top);
  EXPECT_EQ(narrow<TypeParam>(-0.0f).bits, 0x8000);
  EXPECT_EQ(narrow<TypeParam>(1.0f).bits, narrow<TypeParam>(std::nextafterf(1.0f, 2.0f)).bits);
  for (const std::uint32_t pattern : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(widen(narrow<TypeParam>(vocabloss::Impl::float_of(pattern))))) << std::hex << pattern;
  }
}

double ulp(double value) { return std::ldexp(1.0, std::ilogb(static_cast<float>(value)) - 23); }

TEST(Exp2, IsWithinOneUlpOverItsRange) {
  double worst = 0;
  for (int i = 0; i <= 2000000; ++i) {
    const float a = static_cast<float>(1.0 - 127.0 * i / 2000000.0);
    const double exact = std::exp2(static_cast<double>(a));
    const double error = std::fabs(vocabloss::loss::exp2_of(a) - exact) / ulp(exact);
    ASSERT_TRUE(error < 1.25) << "at " << a;
    worst = std::fmax(worst, error);
  }
  EXPECT_LE(worst, 1.25);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(Exp2, IsExactWhereTheAlgebraNeedsIt) {
  using vocabloss::loss::exp2_of;
  for (int n = -126; n <= 1; ++n) EXPECT_EQ(exp2_of(static_cast<float>(n)), std::ldexp(1.0f, n)) << n;
  EXPECT_EQ(exp2_of(-HUGE_VALF), 0.0f);
  EXPECT_TRUE(std::isnan(exp2_of(std::numeric_limits<float>::quiet_NaN())));
  for (const float a : {-126.5f, -149.0f, -1e3f, -1e7f, -4194304.0f, -1.2582912e7f, -3e9f, -1e30f, -3.4e38f}) {
    const float result = exp2_of(a);
    EXPECT_TRUE(result >= 0 && result <= 0x1p-126f) << "2^" << a << " = " << result;
  }
}

TEST(Log2, IsWithinOneUlpOfMaxOfOneAndTheResult) {
  for (int exponent = -126; exponent <= 0; ++exponent) {
    for (int i = 0; i <= 4000; ++i) {
      const float a = std::ldexp(1.0f + static_cast<float>(i) / 4000.0f, exponent);
      const double exact = std::log2(static_cast<double>(a));
      const double error = std::fabs(vocabloss::loss::log2_of(a) - exact);
      ASSERT_TRUE(error <= 1.5 * ulp(std::fmax(1.0, std::fabs(exact)))) << "log2 of " << a;
    }
  }
  EXPECT_TRUE(std::isnan(vocabloss::loss::log2_of(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(vocabloss::loss::log2_of(1.0f), 0.0f);
}

TEST(Weighted, AZeroWeightWins) {
  EXPECT_EQ(vocabloss::loss::weighted(0.0f, HUGE_VALF), 0.0f);
  EXPECT_EQ(vocabloss::loss::weighted(0.0f, std::numeric_limits<float>::quiet_NaN()), 0.0f);
  EXPECT_EQ(vocabloss::loss::weighted(2.0f, HUGE_VALF), HUGE_VALF);
  EXPECT_TRUE(std::isnan(vocabloss::loss::weighted(std::numeric_limits<float>::quiet_NaN(), 1.0f)));
}

}  // namespace
