// Element types of published weights, against their definitions.
#include "espalier/checkpoint/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace espalier {
namespace {

// All 65536 values of a 16-bit format.
std::vector<float> converted(DType from) {
  std::vector<uint16_t> in(1 << 16);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i);
  std::vector<float> out(in.size(), -1);
  f32_from(from, std::as_bytes(std::span(in)), out);
  return out;
}

// The value by IEEE 754's formula: (-1)^s 2^(e - bias) 1.f, subnormal 2^(1 - bias) 0.f.
float by_definition(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int top = (1 << exponent_bits) - 1, bias = top / 2;
  const int e = static_cast<int>(bits >> fraction_bits) & top;
  const double f = static_cast<double>(bits & ((1u << fraction_bits) - 1));
  const double scale = std::ldexp(1.0, -fraction_bits);
  const double magnitude = e == top ? (f == 0 ? HUGE_VAL : std::nan(""))
                           : e == 0 ? std::ldexp(f * scale, 1 - bias)
                                    : std::ldexp(1 + f * scale, e - bias);
  return static_cast<float>(bits >> 15 ? -magnitude : magnitude);
}

void expect_exact(DType from, int exponent_bits) {
  const std::vector<float> out = converted(from);
  for (uint32_t bits = 0; bits < out.size(); ++bits) {
    const float expected = by_definition(bits, exponent_bits, 15 - exponent_bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(out[bits])) << std::hex << bits;
    } else {
      // By bits, for the sign of zero.
      ASSERT_EQ(std::bit_cast<uint32_t>(out[bits]), std::bit_cast<uint32_t>(expected))
          << std::hex << bits;
    }
  }
}

TEST(Convert, EveryF16Exactly) { expect_exact(DType::kF16, 5); }
TEST(Convert, EveryBF16Exactly) { expect_exact(DType::kBF16, 8); }

TEST(Convert, F32AsItIsAndF64ToTheNearest) {
  const std::vector<float> same = {1.5f, -0.0f, std::numeric_limits<float>::denorm_min()};
  std::vector<float> out(3);
  f32_from(DType::kF32, std::as_bytes(std::span(same)), out);
  EXPECT_EQ(out, same);
  // One and half a unit in the last place is between two float32: the even one is taken.
  const std::vector<double> wide = {1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-40, 1e300};
  f32_from(DType::kF64, std::as_bytes(std::span(wide)), out);
  EXPECT_EQ(out, (std::vector<float>{1, 1 + 0x1p-23f, HUGE_VALF}));
}

TEST(Convert, NoIntegersAndNoOtherSizes) {
  const std::vector<int32_t> integers = {1, 2};
  std::vector<float> out(2);
  EXPECT_THROW(f32_from(DType::kS32, std::as_bytes(std::span(integers)), out), Error);
  EXPECT_THROW(f32_from(DType::kF16, std::as_bytes(std::span(integers)), out), Error);
}

// Every bf16 comes back from f32, and a number between two goes to the nearer, of two as near to
// the even one.
TEST(ConvertFloats, RoundsToNearestEven) {
  const auto narrow = [](const std::vector<float>& in) {
    std::vector<uint16_t> out(in.size());
    convert_floats(DType::kF32, std::as_bytes(std::span(in)), DType::kBF16,
                   std::as_writable_bytes(std::span(out)));
    return out;
  };
  const std::vector<float> all = converted(DType::kBF16);
  const std::vector<uint16_t> back = narrow(all);
  for (uint32_t bits = 0; bits < all.size(); ++bits) {
    if (std::isnan(all[bits])) {
      EXPECT_TRUE(std::isnan(all[back[bits]])) << bits;
    } else {
      EXPECT_EQ(back[bits], bits);
    }
  }
  const auto at = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  EXPECT_EQ(narrow({at(0x3f808000), at(0x3f818000), at(0x3f808001), at(0x3f807fff), at(0x7f7fffff),
                    at(0x7f800001)}),
            (std::vector<uint16_t>{0x3f80, 0x3f82, 0x3f81, 0x3f80, 0x7f80, 0x7fc0}));
  const std::vector<double> wide = {1.0, -2.5};
  std::vector<uint16_t> out(2);
  convert_floats(DType::kF64, std::as_bytes(std::span(wide)), DType::kBF16,
                 std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, (std::vector<uint16_t>{0x3f80, 0xc020}));
}

}  // namespace
}  // namespace espalier
