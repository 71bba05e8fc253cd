// group_scales: the power of two by which P of a group of tokens is scaled, problems with partial sums only. One CTA a
// group of tokens of a batch entry and kv group.
//
// From the bounds of partial_sums.cuh: B, the sum over the group's tokens, is above whatever the group can add up to in
// an element, so 2^floor(log2(65504 / (1.1 B))) keeps every sum finite; 1.1 is for the roundings, (1 + 2^-11)^128 =
// 1.065 of the sums and those of P and dS. Tokens and rows that are not finite are left out: what they touch is NaN
// anyway.
#pragma once

constexpr int kGroupScalesThreads = 256;

PTX_FN float max_of_cta(float x, u32 slots, int t) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  if (t % 32 == 0) st_shared_u32(slots + t / 32 * 4, __float_as_uint(x));
  __syncthreads();
  for (int i = 0; i < kGroupScalesThreads / 32; ++i) x = fmaxf(x, __uint_as_float(ld_shared_u32(slots + i * 4)));
  return x;
}

PTX_FN float sum_of_cta(float x, u32 slots, int t) {
  x = sum_of_warp(x);
  if (t % 32 == 0) st_shared_u32(slots + t / 32 * 4, __float_as_uint(x));
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < kGroupScalesThreads / 32; ++i) sum += __uint_as_float(ld_shared_u32(slots + i * 4));
  return sum;
}

PTX_FN void group_scales(const Arguments& args) {
  PTX_STATIC_SHARED(partial_results, 64);
  const u32 slots = shared_address(partial_results);
  const int t = (int)threadIdx.x;
  const long long list_group = blockIdx.x / (u32)args.token_groups;  // (b, kv group)
  const long long b = list_group / Spec::kv_groups;
  const int group = (int)(list_group % Spec::kv_groups);
  bool finite = true;

  float largest = 0.0f;  // norm of a value row
  for (int row = t; row < args.keys; row += kGroupScalesThreads) {
    const float norm = ld_global_nc_f32(args.row_norms + list_group * args.keys + row);
    finite = finite && norm < infinity();
    if (norm < infinity()) largest = fmaxf(largest, norm);
  }
  largest = max_of_cta(largest, slots, t);

  const long long first = (long long)(blockIdx.x % (u32)args.token_groups) * args.group_tokens;
  const int tokens = (int)(first + args.group_tokens < args.queries ? args.group_tokens : args.queries - first);
  float bound = 0.0f;
  for (int token = t; token < tokens; token += kGroupScalesThreads) {
    const long long list = (b * args.queries + first + token) * Spec::kv_groups + group;
    float constant = 0.0f, slope = 0.0f;
    bool token_is_finite = true;
    for (int warp = 0; warp < 8; ++warp) {
      const float* of_warp = (const float*)args.list_bounds + (list * 8 + warp) * 2;
      const float of_heads = ld_global_nc_f32(of_warp);
      token_is_finite = token_is_finite && of_heads < infinity();
      constant += of_heads;
      slope += ld_global_nc_f32(of_warp + 1);
    }
    finite = finite && token_is_finite;
    if (token_is_finite) bound += fminf(constant + slope * largest, kLargestBound);
  }
  bound = fminf(sum_of_cta(bound, slots + 32, t), kLargestBound);

  if (!finite) red_add_u32(args.counters + kInputNotFinite, 1);
  if (t == 0) {
    int exponent = 0;
    if (bound > 0.0f) {
      const float room = 65504.0f / (1.1f * bound);
      exponent = max(-100, min(100, (int)(__float_as_uint(room) >> 23) - 127));
    }
    st_global_f32(args.group_exponent + blockIdx.x, (float)exponent);
    // A rounding to a multiple of 2^-24 has the variance 2^-50 / 3, and an element takes an addition from each block.
    const float unit = power_of_two(max(-126, -25 - exponent));
    const float additions = (float)((tokens + Spec::block_tokens - 1) / Spec::block_tokens * Spec::head_blocks);
    const float elements = (float)args.keys * (float)Spec::d_qk;
    if (bound > 0.0f) {
      red_add_f32((float*)args.counters + kRoundingFloor, additions * elements * (1.0f / 3.0f) * unit * unit);
    }
  }
}
