// Schedules wgmma and wgmma_pair: how accumulators leave, as rows of d_q and, panel by panel, as
// reductions into d_kv_sum (wgmma_reductions.cuh, wgmma_fixed_point.cuh or wgmma_partial_sums.cuh).
#pragma once

// The reductions of a 64-column panel.
PTX_FN void reduce_panel(float (&d)[32], const ReductionRows& rows, u32 column) {
  Exchanged other;
  exchange_halves<0>(d, rows, other);
  reduce_row<0, 0>(d, rows, other, column);
  reduce_row<0, 1>(d, rows, other, column);
  reduce_row<0, 2>(d, rows, other, column);
  reduce_row<0, 3>(d, rows, other, column);
  exchange_halves<16>(d, rows, other);
  reduce_row<16, 0>(d, rows, other, column + 32);
  reduce_row<16, 1>(d, rows, other, column + 32);
  reduce_row<16, 2>(d, rows, other, column + 32);
  reduce_row<16, 3>(d, rows, other, column + 32);
}

// ---- d_q out ----

// Four lanes hold 32 columns of a row in 4-byte pieces; they transpose them, and each stores 16 bytes.
PTX_FN void store_32_columns(u16* out, bool exists, int quad, u32 x0, u32 x1, u32 x2, u32 x3) {
  const bool b0 = quad & 1, b1 = quad & 2;
  const u32 r01 = __shfl_xor_sync(0xffffffffu, b0 ? x0 : x1, 1), r23 = __shfl_xor_sync(0xffffffffu, b0 ? x2 : x3, 1);
  const u32 a0 = b0 ? r01 : x0, a1 = b0 ? x1 : r01, c0 = b0 ? r23 : x2, c1 = b0 ? x3 : r23;
  const u32 r0 = __shfl_xor_sync(0xffffffffu, b1 ? a0 : c0, 2), r1 = __shfl_xor_sync(0xffffffffu, b1 ? a1 : c1, 2);
  if (exists) st_global_cs_v4_u32(out, b1 ? r0 : a0, b1 ? r1 : a1, b1 ? c0 : r0, b1 ? c1 : r1);
}

// Columns column .. column + Columns of a warp's 16 rows of d_q; where CTAs share a list, of this one's part of it.
template <int Columns>
PTX_FN void store_d_q(const Arguments& args, int column, const float (&d)[Columns / 2]) {
  const int thread = (int)tid_x() % 128;  // of the warpgroup
  if (is_share(args)) return store_share<Columns>(args, thread, column, d);
  const Place place = own_place(args);
  const int warp = thread / 32, lane = thread % 32, quad = lane & 3;
  const float unscale = inverse_scale(args, place);
  const auto pair = [&](int i) { return pack(d[i] * unscale, d[i + 1] * unscale); };
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const HeadRow row = head_row(args, place, warp * 16 + (lane >> 2) + half * 8);
    u16* out = (u16*)args.d_q + offset_of(args.d_q_strides, place.b, row.s, row.head) + column + quad * 8;
#pragma unroll
    for (int block = 0; block < Columns / 32; ++block) {
      const int i = block * 16 + half * 2;
      store_32_columns(out + block * 32, row.exists, quad, pair(i), pair(i + 4), pair(i + 8), pair(i + 12));
    }
  }
}
