// Conversions against arithmetic on the values themselves, for every 16-bit pattern.

#include "numbers.hpp"

#include <cmath>
#include <limits>

#include "support.hpp"

namespace ragged {
namespace {

// The value of a small float format from its fields.
double value_of(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>((bits >> mantissa_bits) & ((1U << exponent_bits) - 1));
  const double fraction = static_cast<double>(bits & ((1U << mantissa_bits) - 1)) /
                          static_cast<double>(1U << mantissa_bits);
  const double sign = ((bits >> (exponent_bits + mantissa_bits)) & 1U) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1.0 + fraction, exponent - bias);
}

template <typename ToFloat, typename FromFloat>
void check_format(int exponent_bits, int mantissa_bits, ToFloat to_float, FromFloat from_float) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double value = value_of(bits, exponent_bits, mantissa_bits);
    const float widened = to_float(pattern);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(widened)) << bits;
      ASSERT_TRUE(std::isnan(to_float(from_float(widened)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(widened), value) << bits;
    ASSERT_EQ(from_float(widened), pattern) << bits;
    // Half way to the next pattern goes to the even one; a hair to either side to the nearer one.
    const double next = value_of(bits + 1, exponent_bits, mantissa_bits);
    if ((bits & 0x7fffU) == 0x7fffU || !std::isfinite(value) || !std::isfinite(next)) continue;
    const auto middle = static_cast<float>((value + next) / 2);
    const auto toward = [](double d) { return static_cast<float>(d); };
    ASSERT_EQ(from_float(middle), (bits & 1U) == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(from_float(std::nextafter(middle, toward(value))), bits) << bits;
    ASSERT_EQ(from_float(std::nextafter(middle, toward(next))), bits + 1) << bits;
  }
}

TEST(Numbers, Bf16) { check_format(8, 7, bf16_to_float, float_to_bf16); }
TEST(Numbers, Fp16) { check_format(5, 10, fp16_to_float, float_to_fp16); }

TEST(Numbers, BeyondTheLargestIsInfinity) {
  EXPECT_EQ(float_to_fp16(65519.0f), 0x7bffU);
  EXPECT_EQ(float_to_fp16(65520.0f), 0x7c00U);
  EXPECT_EQ(float_to_fp16(-1e30f), 0xfc00U);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80U);
  EXPECT_EQ(float_to_fp16(0x1p-25f), 0U);
  EXPECT_EQ(float_to_fp16(0x1.8p-25f), 1U);
  EXPECT_EQ(float_to_fp16(-0.0f), 0x8000U);
}

}  // namespace
}  // namespace ragged
