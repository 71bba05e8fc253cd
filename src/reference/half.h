// bf16 and fp16 as their bits, and the way between them and double.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "problem/problem.h"

namespace smla::core {

inline float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Without a branch, so that loops over rows vectorise.
inline float fp16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  // The exponent's bias differs by 112; a multiplication mends it and makes subnormals normal, all exactly.
  const float finite = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const std::uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(finite) | special | sign);
}

inline float to_float(DType dtype, std::uint16_t bits) {
  return dtype == DType::bf16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

// The float that rounds to the same bf16 or fp16 as `value` does: towards odd, so that rounding twice is
// rounding once.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  const double back = static_cast<double>(nearest);
  if (back == value || std::isnan(value) || (bits & 1u) != 0) return nearest;
  return std::bit_cast<float>(std::fabs(back) < std::fabs(value) ? bits + 1 : bits - 1);
}

// To nearest, ties to even; above the largest finite value inf; NaN stays a (quiet) NaN of the same sign.
inline std::uint16_t to_bf16(double value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(round_to_odd(value));
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline std::uint16_t to_fp16(double value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(round_to_odd(value));
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= std::bit_cast<std::uint32_t>(65520.0f)) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < std::bit_cast<std::uint32_t>(0x1p-14f)) {
    // The unit in the last place of 0.5f is that of fp16's subnormals: the addition rounds as wanted.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(
        sign | (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f)));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

inline std::uint16_t to_operand(DType dtype, double value) {
  return dtype == DType::bf16 ? to_bf16(value) : to_fp16(value);
}

}  // namespace smla::core
