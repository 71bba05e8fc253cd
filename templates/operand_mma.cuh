// mma.sync of the operand type.
#pragma once

PTX_FN void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if (Spec::is_bf16) {
    mma_m16n8k16_bf16(d, a, b0, b1);
  } else {
    mma_m16n8k16_f16(d, a, b0, b1);
  }
}
