// d_kv_sum as fp16 sums, a buffer for each group of neighbouring tokens, which postprocess folds in fp32: half the
// bytes of fp32 sums on their way to L2, and those bytes bound the backward. It takes the place of columns.cuh when the
// problem accumulates in partial sums.
//
// The error of a sum of n fp16 additions is 2.05e-4 sqrt(n / 2) of it, so groups are of 64 or 128 tokens. P is scaled
// by a power of two of its group, the largest at which no sum can pass 65,504 (group_scales.cuh): it rides on exp2's
// argument, dS inherits it, d_q loses it when it is stored and d_kv in the fold. What fp16 cannot hold is noticed:
// postprocess sums up the squares of d_kv, and where the rounding of tiny sums to multiples of 2^-24 may weigh, or
// where a sum is not finite though all inputs are, the same call runs once more with fp32 sums (fallback.cuh).
//
// Columns 2l, 2l + 1, 8 + 2l, 9 + 2l, 16 + 2l, 17 + 2l, 24 + 2l, 25 + 2l of a block of 32 (l = lane % 4), a thread's
// eight accumulators of one row, lie side by side at 8l: one reduction of 16 bytes takes them all.
#pragma once

// Which group of tokens, counted over batch entries and kv groups: index of args.group_exponent and of the buffers.
PTX_FN long long group_of_tokens(const Arguments& args, long long b, long long s, int group) {
  return (b * Spec::kv_groups + group) * args.token_groups + s / args.group_tokens;
}

static_assert(Spec::sum_row_bytes == Spec::d_qk * 2, "the plan lays out rows of other sums");

// The sums that a block of tokens adds to.
PTX_FN const char* sums_of(const Arguments& args, const Place& place) {
  return (const char*)args.d_kv_sum +
         group_of_tokens(args, place.b, place.s, place.group) * args.keys * Spec::sum_row_bytes;
}

PTX_FN float power_of_two(int exponent) { return __uint_as_float((u32)(exponent + 127) << 23); }

// log2 of the scale of P and dS.
PTX_FN float log2_scale(const Arguments& args, const Place& place) {
  return ld_global_nc_f32(args.group_exponent + group_of_tokens(args, place.b, place.s, place.group));
}

PTX_FN float inverse_scale(const Arguments& args, const Place& place) {
  return power_of_two(-(int)log2_scale(args, place));
}

// The four columns 2l, 2l + 1, 8 + 2l, 9 + 2l of a block of 16 columns of a row, all groups of tokens added up, for
// postprocess; quad = 4 * block + l.
PTX_FN void load_quad(float (&x)[4], const Arguments& args, long long b, int group, long long row, int quad) {
  const int block = quad >> 2;
  const long long pitch = args.keys * (long long)Spec::sum_row_bytes;
  const long long first = group_of_tokens(args, b, 0, group);
  const char* place = (const char*)args.d_kv_sum + first * pitch + row * Spec::sum_row_bytes + (block >> 1) * 64 +
                      (quad & 3) * 16 + (block & 1) * 8;
  x[0] = x[1] = x[2] = x[3] = 0.0f;
#pragma unroll 8
  for (int i = 0; i < args.token_groups; ++i) {
    u32 sums[2];
    ld_global_nc_v2_u32(sums, place + i * pitch);
    const float scale = power_of_two(-(int)ld_global_nc_f32(args.group_exponent + first + i));
    x[0] += scale * cvt_f32_f16((u16)sums[0]);
    x[1] += scale * cvt_f32_f16((u16)(sums[0] >> 16));
    x[2] += scale * cvt_f32_f16((u16)sums[1]);
    x[3] += scale * cvt_f32_f16((u16)(sums[1] >> 16));
  }
}

PTX_FN float sum_of_warp(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// What postprocess notices of the elements that it writes.
struct FoldReport {
  float squares = 0.0f;
  bool finite = true;
};

PTX_FN void note(FoldReport& report, const float (&x)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    report.squares = fmaf(x[i], x[i], report.squares);
    report.finite = report.finite && fabsf(x[i]) < infinity();
  }
}

PTX_FN void store_report(const FoldReport& report, const Arguments& args) {
  const float squares = sum_of_warp(report.squares);
  if (threadIdx.x % 32 == 0 && squares > 0.0f) red_add_f32((float*)args.counters + kSquares, squares);
  if (!report.finite) red_add_u32(args.counters + kNotFinite, 1);
}

constexpr bool kBounded = true;  // preprocess stores bounds

// ---- what a token may add to an element of d_kv, for preprocess ----
//
//   sum over heads of P |d_o| + |dS| |q|  <=  sum over heads of max|d_o| + scale / 2 * |d_o| * V * max|q|
//
// |.| are Euclidean norms and V is the largest of a value row; |P (dP - delta)| <= |d_o| V / 2 since
// P (1 - P) <= 1 / 4.

struct ListBound {
  float constant = 0.0f, slope = 0.0f;  // of V; in every lane
};

// Bounds of finite inputs are finite, however large: what a bound of this size leaves of fp16 calls the fallback.
constexpr float kLargestBound = 3e38f;

// The norm of a vector of d_v elements, from its squares where these neither overflow nor vanish.
PTX_FN float norm_of(float squares, float largest) {
  constexpr float kTiny = 9.094947e-13f, kHuge = 1.1529215e18f;  // 2^-40, 2^60
  if (largest > kTiny && largest < kHuge) return sqrt_approx(squares);
  return largest < infinity() ? fminf(22.63f * largest, kLargestBound) : largest;
}
static_assert(Spec::d_v == 512, "22.63 is above the root of d_v");

// One more head. Each lane takes its share of the columns.
PTX_FN void widen_bound(ListBound& bound, const Arguments& args, long long b, long long s, int head, int lane) {
  const u16* q = (const u16*)args.q + offset_of(args.q_strides, b, s, head);
  const u16* d_o = (const u16*)args.d_o + offset_of(args.d_o_strides, b, s, head);
  u32 largest_q = 0, largest_d_o = 0, x[4];
  float squares = 0.0f;
#pragma unroll
  for (int column = 0; column < Spec::d_v; column += 256) {
    ld_global_nc_v4_u32(x, q + column + lane * 8);
    largest_q = larger_magnitude(largest_q, x);
    ld_global_nc_v4_u32(x, d_o + column + lane * 8);
    largest_d_o = larger_magnitude(largest_d_o, x);
    squares += dot_of_chunk(x, x);
  }
  if (lane * 8 < Spec::d_tail) {
    ld_global_nc_v4_u32(x, q + Spec::d_v + lane * 8);
    largest_q = larger_magnitude(largest_q, x);
  }
  const float max_q = unpack_low(largest_of_warp(largest_q)), max_d_o = unpack_low(largest_of_warp(largest_d_o));
  const float norm = norm_of(sum_of_warp(squares), max_d_o);
  if (!(max_q < infinity() && max_d_o < infinity())) bound.constant = infinity();  // and stays there
  bound.constant = bound.constant < infinity() ? fminf(bound.constant + max_d_o, kLargestBound) : infinity();
  bound.slope = fminf(bound.slope + 0.5f * fabsf(args.scale) * norm * max_q, kLargestBound);
}
PTX_FN void widen_bound(ListBound&, float) {}  // delta is that of o and d_o

// A warp stores what its heads may add; nothing for a dead row.
PTX_FN void store_bound(const ListBound& bound, const Arguments& args, long long list, int warp, int, bool dead,
                        int lane) {
  if (lane != 0) return;
  st_global_v2_u32(args.list_bounds + (list * 8 + warp) * 2, dead ? 0u : __float_as_uint(bound.constant),
                   dead ? 0u : __float_as_uint(bound.slope));
}

// The norms of the value rows, a warp a row.
PTX_FN void store_row_norms(const Arguments& args, int warp, int lane) {
  const long long rows = (long long)args.batch * Spec::kv_groups * args.keys;
  for (long long i = blockIdx.x * 8ll + warp; i < rows; i += gridDim.x * 8ll) {
    const long long b = i / ((long long)Spec::kv_groups * args.keys);
    const int group = (int)(i / args.keys % Spec::kv_groups);
    const u16* kv = (const u16*)args.kv + offset_of(args.kv_strides, b, i % args.keys, group);
    u32 largest = 0, x[4];
    float squares = 0.0f;
#pragma unroll
    for (int column = 0; column < Spec::d_v; column += 256) {
      ld_global_nc_v4_u32(x, kv + column + lane * 8);
      largest = larger_magnitude(largest, x);
      squares += dot_of_chunk(x, x);
    }
    const float norm = norm_of(sum_of_warp(squares), unpack_low(largest_of_warp(largest)));
    if (lane == 0) st_global_f32(args.row_norms + i, norm);
  }
}
