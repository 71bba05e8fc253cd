// The 16-bit operand type of the tensor cores: bf16 or fp16 by Spec::is_bf16, one name for both.
#pragma once

// Two floats rounded once to the operand type, `low` in the lower half.
PTX_FN u32 pack(float low, float high) {
  return Spec::is_bf16 ? cvt_rn_bf16x2_f32(low, high) : cvt_rn_f16x2_f32(low, high);
}
PTX_FN float unpack_low(u32 packed) {
  return Spec::is_bf16 ? __uint_as_float(packed << 16) : cvt_f32_f16((u16)(packed & 0xffffu));
}
PTX_FN float unpack_high(u32 packed) {
  return Spec::is_bf16 ? __uint_as_float(packed & 0xffff0000u) : cvt_f32_f16((u16)(packed >> 16));
}

// Sum of products of eight neighbouring elements.
PTX_FN float dot_of_chunk(const u32 (&o)[4], const u32 (&d_o)[4]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(unpack_low(o[i]), unpack_low(d_o[i]), sum);
    sum = fmaf(unpack_high(o[i]), unpack_high(d_o[i]), sum);
  }
  return sum;
}
