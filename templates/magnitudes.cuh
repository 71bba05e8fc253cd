// Largest magnitudes of 16-bit operands, as bits: these sort like the numbers, NaN and infinities above all. For the
// bounds of what may be added to d_kv (fixed_point.cuh, partial_sums.cuh).
#pragma once

PTX_FN u32 larger_magnitude(u32 largest, const u32 (&chunk)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) largest = max(largest, max(chunk[i] & 0x7fffu, chunk[i] >> 16 & 0x7fffu));
  return largest;
}

// The same of eight elements in global memory.
PTX_FN u32 larger_magnitude(u32 largest, const void* elements) {
  u32 chunk[4];
  ld_global_nc_v4_u32(chunk, elements);
  return larger_magnitude(largest, chunk);
}

PTX_FN u32 largest_of_warp(u32 x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
