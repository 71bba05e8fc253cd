// d_kv_sum as fp32: rows of d_qk floats, their columns permuted. fixed_point.cuh is the same in integers, for sums that
// repeat bit for bit.
//
// A thread's four accumulators of one kv row in two neighbouring 8-column tiles (columns 2l, 2l + 1, 8 + 2l, 9 + 2l of
// a block of 16; l = lane % 4) lie side by side in d_kv_sum, at 4l .. 4l + 3 of the block, so that one 16-byte
// reduction takes them all. Both mma.sync and wgmma lay accumulators out like this; postprocess puts the columns back.
#pragma once

static_assert(Spec::sum_row_bytes == Spec::d_qk * 4, "the plan lays out rows of other sums");

// Four neighbouring floats of a row, for postprocess: quad 4b + l holds the four columns above of block b.
PTX_FN void load_quad(float (&x)[4], const Arguments& args, long long b, int group, long long row, int quad) {
  u32 bits[4];
  ld_global_nc_v4_u32(bits, sums_of(args, b, group) + row * Spec::sum_row_bytes + quad * 16);
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = __uint_as_float(bits[i]);
}

// Where a warp's accumulators of 16 kv rows go in schedule cp_async. A thread has two of the rows; -1: none.
struct WarpRows {
  float* sum[2];
  bool counts[2];
};

PTX_FN WarpRows warp_rows(const char* sums, int row, int row_8_on, int lane) {
  WarpRows rows;
  const int both[2] = {row, row_8_on};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    rows.counts[i] = both[i] >= 0;
    rows.sum[i] = (float*)(sums + (long long)max(both[i], 0) * Spec::sum_row_bytes) + (lane & 3) * 4;
  }
  return rows;
}

// Adds 16 columns of the 16 rows, two accumulator tiles of 8 columns.
PTX_FN void add_columns(const WarpRows& rows, int column, const float (&d)[2][4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (!rows.counts[i]) continue;
    float* sum = rows.sum[i] + column;
    if (Spec::vector_reductions) {
      red_add_v4_f32(sum, d[0][i * 2], d[0][i * 2 + 1], d[1][i * 2], d[1][i * 2 + 1]);
    } else {
      red_add_f32(sum, d[0][i * 2]);
      red_add_f32(sum + 1, d[0][i * 2 + 1]);
      red_add_f32(sum + 2, d[1][i * 2]);
      red_add_f32(sum + 3, d[1][i * 2 + 1]);
    }
  }
}

// Floats need no bound on what is added to them.
struct ListBound {};
PTX_FN void widen_bound(ListBound&, const Arguments&, long long, long long, int, int) {}
PTX_FN void widen_bound(ListBound&, float) {}
PTX_FN void store_bound(const ListBound&, const Arguments&, long long, int, int, bool, int) {}

constexpr bool kBounded = false;  // preprocess stores bounds
