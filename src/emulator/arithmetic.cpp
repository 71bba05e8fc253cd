#include "emulator/arithmetic.h"

#include <cmath>
#include <limits>

#include "emulator/findings.h"
#include "emulator/machine.h"

namespace smla::core::emulator {

void check_poison(float value, const char* what) {
  if (is_poison(value)) {
    found("poison", "{} of an accumulator that a wgmma in flight owns: no wait_group covers it yet", what);
  }
}

u32 call_pack(float low, float high, int is_bf16) {
  note_place();
  check_poison(low, "cvt");
  check_poison(high, "cvt");
  const DType dtype = is_bf16 ? DType::bf16 : DType::fp16;
  const auto round = [&](float value) { return u32{to_operand(dtype, static_cast<double>(value))}; };
  return round(low) | round(high) << 16;
}

float call_cvt_f32_f16(u16 bits) {
  return fp16_to_float(bits);
}

float call_ex2(float x) {
  note_place();
  check_poison(x, "ex2");
  const float value = std::exp2(x);
  return value < std::numeric_limits<float>::min() ? 0.0f : value;
}

float call_lg2(float x) {
  note_place();
  check_poison(x, "lg2");
  return std::log2(x);
}

}  // namespace smla::core::emulator
