// Conversions and special functions, and the mark of an accumulator that is not there yet.
#pragma once

#include <bit>

#include "emulator/clock.h"
#include "reference/half.h"

namespace smla::core::emulator {

// A NaN with a payload: what registers hold that a wgmma in flight owns. Arithmetic passes it on.
constexpr u32 kPoison = 0x7fedfaceu;

inline bool is_poison(float value) {
  return std::bit_cast<u32>(value) == kPoison;
}

// A finding when `value` is one.
void check_poison(float value, const char* what);

inline float operand_to_float(u16 bits, bool is_bf16) {
  return is_bf16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

u32 call_pack(float low, float high, int is_bf16);
float call_cvt_f32_f16(u16 bits);
float call_ex2(float x);
float call_lg2(float x);

}  // namespace smla::core::emulator
