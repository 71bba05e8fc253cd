// wgmma of the operand type, and the descriptors of operands in shared memory. TransA, TransB: 1 = MN-major. scale_d 0:
// d is overwritten.
#pragma once

// Descriptors: 128-byte swizzle, 8 rows of a panel are 1,024 bytes. K-major: the sum runs along the columns; MN-major:
// along the rows, further columns a panel on.
PTX_FN u64 k_major(u32 address) { return wgmma_descriptor((address >> 4) + (1u << 16), 64u | (1u << 30)); }
// `further`: 16 bytes each, apart from the address so that what is known of that stays an immediate.
PTX_FN u64 mn_major(u32 address, u32 further = 0) {
  return wgmma_descriptor((address >> 4) + (512u << 16) + further, 64u | (1u << 30));
}

template <int TransA, int TransB>
PTX_FN void wgmma_n64_ss(float (&d)[32], u64 a, u64 b, int scale_d) {
  if (Spec::is_bf16) {
    wgmma_m64n64k16_bf16_ss<TransA, TransB>(d, a, b, scale_d);
  } else {
    wgmma_m64n64k16_f16_ss<TransA, TransB>(d, a, b, scale_d);
  }
}
template <int TransB>
PTX_FN void wgmma_n32_rs(float (&d)[16], const u32 (&a)[4], u64 b, int scale_d) {
  if (Spec::is_bf16) {
    wgmma_m64n32k16_bf16_rs<TransB>(d, a, b, scale_d);
  } else {
    wgmma_m64n32k16_f16_rs<TransB>(d, a, b, scale_d);
  }
}
template <int TransA, int TransB>
PTX_FN void wgmma_n32_ss(float (&d)[16], u64 a, u64 b, int scale_d) {
  if (Spec::is_bf16) {
    wgmma_m64n32k16_bf16_ss<TransA, TransB>(d, a, b, scale_d);
  } else {
    wgmma_m64n32k16_f16_ss<TransA, TransB>(d, a, b, scale_d);
  }
}
template <int TransB>
PTX_FN void wgmma_n256_rs(float (&d)[128], const u32 (&a)[4], u64 b, int scale_d) {
  if (Spec::is_bf16) {
    wgmma_m64n256k16_bf16_rs<TransB>(d, a, b, scale_d);
  } else {
    wgmma_m64n256k16_f16_rs<TransB>(d, a, b, scale_d);
  }
}
template <int TransA, int TransB>
PTX_FN void wgmma_n256_ss(float (&d)[128], u64 a, u64 b, int scale_d) {
  if (Spec::is_bf16) {
    wgmma_m64n256k16_bf16_ss<TransA, TransB>(d, a, b, scale_d);
  } else {
    wgmma_m64n256k16_f16_ss<TransA, TransB>(d, a, b, scale_d);
  }
}
