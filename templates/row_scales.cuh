// row_scales: how many bits each row of d_kv_sum gets in front of the point (fixed_point.cuh), deterministic problems
// only.
//
// From the bounds that preprocess stored, over all tokens of a batch entry and group: the largest, times the tokens of
// a block, which no addend passes, and the sum, which no sum passes. The row's own |v| goes into them, so that a row
// that nobody names, whatever it holds, has no say in the others' scales. Sums run in an order that depends on the
// number of tokens alone.
//
// Each batch entry and group has gridDim.x / (B * G) CTAs, which share its rows and all read all of its bounds.
#pragma once

constexpr int kRowScalesThreads = 256;

struct GroupBound {
  float constant_sum = 0.0f, slope_sum = 0.0f, constant_largest = 0.0f, slope_largest = 0.0f;
};

// The bounds of one list: of the eight warps of preprocess.
PTX_FN void add_list(GroupBound& bound, const Arguments& args, long long list) {
  float constant = 0.0f, slope = 0.0f;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    u32 x[4];
    ld_global_nc_v4_u32(x, args.list_bounds + (list * 4 + pair) * 4);
    constant += __uint_as_float(x[0]) + __uint_as_float(x[2]);
    slope += __uint_as_float(x[1]) + __uint_as_float(x[3]);
  }
  bound.constant_sum += constant;
  bound.slope_sum += slope;
  bound.constant_largest = fmaxf(bound.constant_largest, constant);
  bound.slope_largest = fmaxf(bound.slope_largest, slope);
}

// Over all lists of a batch entry and group, in every thread.
PTX_FN GroupBound group_bound(const Arguments& args, long long b, int group) {
  PTX_STATIC_SHARED(partial_bounds, kRowScalesThreads * 16);
  const u32 slots = shared_address(partial_bounds);
  const int t = (int)threadIdx.x;
  GroupBound bound;
  for (long long s = t; s < args.queries; s += kRowScalesThreads) {
    add_list(bound, args, (b * args.queries + s) * Spec::kv_groups + group);
  }
  const auto store = [&] {
    st_shared_v4_u32(slots + t * 16, __float_as_uint(bound.constant_sum), __float_as_uint(bound.slope_sum),
                     __float_as_uint(bound.constant_largest), __float_as_uint(bound.slope_largest));
  };
  store();
  u32 x[4];
  for (int half = kRowScalesThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) {
      ld_shared_v4_u32(x, slots + (t + half) * 16);
      bound.constant_sum += __uint_as_float(x[0]);
      bound.slope_sum += __uint_as_float(x[1]);
      bound.constant_largest = fmaxf(bound.constant_largest, __uint_as_float(x[2]));
      bound.slope_largest = fmaxf(bound.slope_largest, __uint_as_float(x[3]));
      store();
    }
  }
  __syncthreads();
  ld_shared_v4_u32(x, slots);
  return {__uint_as_float(x[0]), __uint_as_float(x[1]), __uint_as_float(x[2]), __uint_as_float(x[3])};
}

// x < 2^exponent_above(x), for x >= 0.
PTX_FN int exponent_above(float x) { return (int)(__float_as_uint(x) >> 23) - 126; }

// The code of a row whose largest value column is `v`. Two bits are spare in both bounds: for P a little above 1, which
// an lse of other roundings gives, for rounded P and dS, and for the roundings of the bounds themselves.
PTX_FN u32 code_of(const GroupBound& bound, float v) {
  const int addend = exponent_above(Spec::block_tokens * (bound.constant_largest + bound.slope_largest * v));
  const int sum = exponent_above(bound.constant_sum + bound.slope_sum * v);
  const int s = min(51 - 2 - addend, 62 - 2 - sum);
  return (u32)min((s + 127) >> 1, kLargestCode);  // s >= 49 - 129: never below 23
}

PTX_FN void row_scales(const Arguments& args) {
  const long long groups = (long long)args.batch * Spec::kv_groups;
  const int ctas = (int)(gridDim.x / groups);  // of a group
  const long long b = blockIdx.x / ctas / Spec::kv_groups;
  const int group = (int)(blockIdx.x / ctas % Spec::kv_groups);
  const GroupBound bound = group_bound(args, b, group);

  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const char* sums = sums_of(args, b, group);
  constexpr int kWarps = kRowScalesThreads / 32;
  for (long long row = (long long)(blockIdx.x % ctas) * kWarps + warp; row < args.keys; row += ctas * kWarps) {
    const u16* kv = (const u16*)args.kv + offset_of(args.kv_strides, b, row, group) + lane * 8;
    u32 largest = 0;
#pragma unroll
    for (int column = 0; column < Spec::d_v; column += 256) largest = larger_magnitude(largest, kv + column);
    const float v = unpack_low(largest_of_warp(largest));
    const u32 code = code_of(bound, v < infinity() ? v : 0.0f);  // all that is added to such a row is NaN
    if (lane < 16) st_global_u32((char*)sums + row * Spec::sum_row_bytes + kMarks + lane * 8 + 4, code);
  }
}
