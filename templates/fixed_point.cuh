// d_kv_sum as 64-bit integers, for sums that repeat bit for bit: integers may be added in any order. It takes the place
// of columns.cuh when the problem is deterministic.
//
// A row of d_kv_sum is d_qk integers, the sums of x * 2^s rounded to nearest, behind them 16 words that say how to read
// them, and 16 that fill up a multiple of 256 bytes. 2^s is the row's own (row_scales.cuh): a power of two, so x * 2^s
// is exact, and so small that nothing that is added can reach 2^51 and no sum 2^63 (the bounds below). In random data
// the typical addend has 28 or more bits; fp32 has 24.
//
// Position 4k + l of a block of 16 integers, l = lane % 4, holds column 2l + (k / 2) + 8 (k % 2): after four lanes that
// are 4 and 8 apart have exchanged their accumulators (spread), 16 neighbouring lanes add to 128 bytes of one row.
//
// The word behind the columns, for each of the 16 positions: above 2^32 the row's exponent code (see kLargestCode),
// below a mark. A value that is not below 2^51, which NaN and infinities are not, marks its position instead of being
// lost in an integer, and postprocess makes NaN of what is marked. With finite inputs and an lse that is theirs there
// are no marks.
#pragma once

constexpr u32 kMarks = Spec::d_qk * 8;  // where the words behind the columns begin
static_assert(Spec::sum_row_bytes == kMarks + 32 * 8, "the plan lays out rows of other sums");

// ---- numbers ----

// Code c means s = 2c - 127: c << 24 is 2^s as a float, (127 - c) << 24 is 2^-s. Seven bits, which fit below the
// byte offset of a row, a multiple of 256.
constexpr int kLargestCode = 126;
PTX_FN float scale_of(u32 code) { return __uint_as_float((code << 24) & 0x7f000000u); }
PTX_FN float inverse_scale_of(u32 code) { return __uint_as_float((127u - code) << 24); }

// The nearest integer: the bits of y + 1.5 * 2^52 below its exponent. That exponent tells |y| < 2^51, too: `outside`
// gets bits from 2^20 on where it is another.
PTX_FN u64 to_integer(float y, u32& outside) {
  const u64 bits = (u64)__double_as_longlong((double)y + 6755399441055744.0);
  outside |= (u32)(bits >> 32) ^ 0x43300000u;
  return bits - 0x4338000000000000ull;
}
constexpr u32 kInside = 0xfffff;  // the most that `outside` is where all was well

// Value k of a quad is that of column 2l + (k / 2) + 8 (k % 2) in the lane's row. Lanes that are 4 and 8 apart hold
// four rows; afterwards value k is that of row k, at the lane's place of the block: position lane % 16.
PTX_FN void spread(float (&x)[4], int lane) {
  const bool b0 = lane & 4, b1 = lane & 8;
  const float r01 = __shfl_xor_sync(0xffffffffu, b0 ? x[0] : x[1], 4), r23 = __shfl_xor_sync(0xffffffffu, b0 ? x[2] : x[3], 4);
  const float a0 = b0 ? r01 : x[0], a1 = b0 ? x[1] : r01, c0 = b0 ? r23 : x[2], c1 = b0 ? x[3] : r23;
  const float r0 = __shfl_xor_sync(0xffffffffu, b1 ? a0 : c0, 8), r1 = __shfl_xor_sync(0xffffffffu, b1 ? a1 : c1, 8);
  x[0] = b1 ? r0 : a0;
  x[1] = b1 ? r1 : a1;
  x[2] = b1 ? c0 : r0;
  x[3] = b1 ? c1 : r1;
}

// The four columns 2l, 2l + 1, 8 + 2l, 9 + 2l of block b of a row, for postprocess; quad = 4b + l.
PTX_FN void load_quad(float (&x)[4], const Arguments& args, long long b, int group, long long of_group, int quad) {
  const char* row = sums_of(args, b, group) + of_group * Spec::sum_row_bytes;
  const char* block = row + (quad >> 2) * 128 + (quad & 3) * 8;
  const char* marks = row + kMarks + (quad & 3) * 8;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int k = (i & 1) * 2 + (i >> 1);
    const long long sum = (long long)ld_global_nc_u64(block + k * 32);
    const u64 word = ld_global_nc_u64(marks + k * 32);
    const float value = (float)sum * inverse_scale_of((u32)(word >> 32));
    x[i] = (u32)word ? __uint_as_float(0x7fffffffu) : value;
  }
}

// The exponent code of a row.
PTX_FN u32 code_of_row(const char* row) { return ld_global_nc_u32(row + kMarks + 4); }

// ---- schedule cp_async: a warp's accumulators of 16 kv rows ----

// Rows m0 + lane / 16 * 4 + r and 8 on, which the lane adds to after `spread`; -1: none.
struct WarpRows {
  const char* sums;
  int row[2][4];
  float scale[2][4];
  int lane;
};

PTX_FN WarpRows warp_rows(const char* sums, int row, int row_8_on, int lane) {
  WarpRows rows;
  rows.sums = sums;
  rows.lane = lane;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // Four lanes hold each row: of those, the one that is asked has the place of the asking lane.
    const float scale = scale_of(code_of_row(sums + (long long)max(i ? row_8_on : row, 0) * Spec::sum_row_bytes));
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int source = (lane & 16) + r * 4 + (lane & 3);
      rows.row[i][r] = __shfl_sync(0xffffffffu, i ? row_8_on : row, source);
      rows.scale[i][r] = __shfl_sync(0xffffffffu, scale, source);
    }
  }
  return rows;
}

// Adds 16 columns of the 16 rows, two accumulator tiles of 8 columns.
PTX_FN void add_columns(const WarpRows& rows, int column, const float (&d)[2][4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float x[4] = {d[0][i * 2], d[1][i * 2], d[0][i * 2 + 1], d[1][i * 2 + 1]};
    spread(x, rows.lane);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const u32 row = (u32)rows.row[i][r];
      const char* place = rows.sums + (long long)row * Spec::sum_row_bytes + (rows.lane & 15) * 8;
      u32 outside = 0;
      const u64 value = to_integer(x[r] * rows.scale[i][r], outside);
      red_add_u64_below<0x80000000u, 0>(row, place + column * 8, value);
      red_or_u32_below_above<0x80000000u, kInside, (int)kMarks>(row, outside, place, 1);
    }
  }
}

// ---- what may be added to a row, for preprocess ----

// Largest magnitudes of some heads of a token (magnitudes.cuh).
struct ListBound {
  u32 q = 0, d_o = 0, delta = 0;
};

// One more head. Each lane takes its share of the columns.
PTX_FN void widen_bound(ListBound& bound, const Arguments& args, long long b, long long s, int head, int lane) {
  const u16* q = (const u16*)args.q + offset_of(args.q_strides, b, s, head);
  const u16* d_o = (const u16*)args.d_o + offset_of(args.d_o_strides, b, s, head);
#pragma unroll
  for (int column = 0; column < Spec::d_v; column += 256) {
    bound.q = larger_magnitude(bound.q, q + column + lane * 8);
    bound.d_o = larger_magnitude(bound.d_o, d_o + column + lane * 8);
  }
  if (lane * 8 < Spec::d_tail) bound.q = larger_magnitude(bound.q, q + Spec::d_v + lane * 8);
}

// delta of a lane's head.
PTX_FN void widen_bound(ListBound& bound, float delta) {
  bound.delta = max(bound.delta, __float_as_uint(delta) & 0x7fffffffu);
}

// What a token's heads add to an element of kv row j, be the row named once or often, is at most
//   sum over heads of P |d_o| + scale P (|d_o . v_j| + |delta|) |q|     with P <= 1
//     <= constant + slope * |v_j|                                       with magnitudes for all products.
// A warp stores those of its heads, nothing for a dead row. Where an input is not finite there is no bound and none is
// needed: all rows of the list get NaN, which are marked.
PTX_FN void store_bound(const ListBound& bound, const Arguments& args, long long list, int warp, int heads,
                        bool dead, int lane) {
  const float q = unpack_low(largest_of_warp(bound.q)), d_o = unpack_low(largest_of_warp(bound.d_o));
  const float delta = __uint_as_float(largest_of_warp(bound.delta));
  const float scale = __uint_as_float(__float_as_uint(args.scale) & 0x7fffffffu);
  const bool finite = q < infinity() && d_o < infinity() && delta < infinity();
  constexpr float kLargest = 3e38f;  // products that overflow still bound what is finite
  const float slope = fminf((float)heads * scale * q * (Spec::d_v * d_o), kLargest);
  const float constant = fminf((float)heads * (d_o + scale * q * delta), kLargest);
  if (lane != 0) return;
  const bool bounded = finite && !dead && heads > 0;
  st_global_v2_u32(args.list_bounds + (list * 8 + warp) * 2, bounded ? __float_as_uint(constant) : 0u,
                   bounded ? __float_as_uint(slope) : 0u);
}

constexpr bool kBounded = true;  // preprocess stores bounds
