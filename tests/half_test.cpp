#include "reference/half.h"

#include <limits>

#include "catch.h"

using namespace smla::core;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The value of finite bits, from their fields alone.
double value_of(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                               : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// Every finite number comes back as itself, and what lies between two neighbours goes to the nearer one, the
// middle to the even one. `count` finite magnitudes from 0 on.
void check_rounding(DType dtype, int exponent_bits, int mantissa_bits, int count) {
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const auto negative = static_cast<std::uint16_t>(i | 0x8000);
    const double value = value_of(bits, exponent_bits, mantissa_bits);
    wrong += static_cast<double>(to_float(dtype, bits)) != value;
    wrong += static_cast<double>(to_float(dtype, negative)) != -value;
    wrong += to_operand(dtype, value) != bits;
    wrong += to_operand(dtype, -value) != negative;
    if (i + 1 == count) break;
    const double above = value_of(static_cast<std::uint16_t>(i + 1), exponent_bits, mantissa_bits);
    const double middle = 0.5 * value + 0.5 * above;
    const auto even = static_cast<std::uint16_t>(i % 2 == 0 ? i : i + 1);
    wrong += to_operand(dtype, middle) != even;
    wrong += to_operand(dtype, std::nextafter(middle, 0.0)) != bits;
    wrong += to_operand(dtype, std::nextafter(middle, kInf)) != static_cast<std::uint16_t>(i + 1);
  }
  REQUIRE(wrong == 0);
}

}  // namespace

TEST_CASE("every finite bf16 survives a round trip and neighbours share what lies between them") {
  check_rounding(DType::bf16, 8, 7, 0x7f80);
}

TEST_CASE("every finite fp16 survives a round trip and neighbours share what lies between them") {
  check_rounding(DType::fp16, 5, 10, 0x7c00);
}

TEST_CASE("what no 16-bit type can hold becomes inf, and NaN stays NaN") {
  REQUIRE(to_fp16(65519.999) == 0x7bff);
  REQUIRE(to_fp16(65520.0) == 0x7c00);
  REQUIRE(to_fp16(-1e300) == 0xfc00);
  REQUIRE(to_fp16(kInf) == 0x7c00);
  REQUIRE(to_bf16(3.3895313892515355e38) == 0x7f7f);
  REQUIRE(to_bf16(1e39) == 0x7f80);
  REQUIRE(to_bf16(-kInf) == 0xff80);
  REQUIRE(std::isnan(fp16_to_float(to_fp16(std::nan("")))));
  REQUIRE(std::isnan(bf16_to_float(to_bf16(std::nan("")))));
  REQUIRE(std::isinf(fp16_to_float(0xfc00)));
  REQUIRE(std::isnan(fp16_to_float(0x7c01)));
  REQUIRE(fp16_to_float(0xfc00) < 0);
}
