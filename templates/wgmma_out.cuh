// Schedule wgmma: how accumulators leave, as reductions into d_kv_sum and as rows of d_q.
#pragma once

// ---- reductions of accumulators into d_kv_sum ----

// Offsets of a thread's four rows (2 of the low eight, 2 of the high eight of its warp's 16) and its place in d_kv_sum.
struct ReductionRows {
  u32 offset[4];
  const char* sums;
  bool odd;  // lane bit 2: which half of a pair of rows this lane ends up with
};

PTX_FN ReductionRows reduction_rows(const char* sums, int tile, int warp, int lane) {
  ReductionRows rows;
  const u32 table = Shared::row_offsets + (tile & 1) * 256 + (warp * 16 + ((lane >> 2) & 6)) * 4;
  ld_shared_v2_u32(rows.offset[0], rows.offset[1], table);
  ld_shared_v2_u32(rows.offset[2], rows.offset[3], table + 32);
  if (kShared) {
#pragma unroll
    for (int i = 0; i < 4; ++i) rows.offset[i] &= ~255u;
  }
  rows.sums = sums + (lane & 7) * 16;
  rows.odd = (lane >> 2) & 1;
  return rows;
}

// Lanes l and l ^ 4 hold neighbouring rows of the same columns. They exchange halves of 32 columns (accumulators First
// .. First + 15), after which eight neighbouring lanes hold 32 columns, 128 bytes, of one row.
template <int First>
PTX_FN void exchange_halves(const float* d, bool odd, float (&other)[2][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int low = First + (i >> 1) * 4 + half * 2 + (i & 1);
      other[half][i] = __shfl_xor_sync(0xffffffffu, odd ? d[low] : d[low + 8], 4);
    }
  }
}

// One of the four reductions of 32 columns: Row of the thread's four rows, `column` in bytes.
template <int First, int Row>
PTX_FN void reduce_row(const float* d, const ReductionRows& rows, const float (&other)[2][4], u32 column) {
  constexpr int half = Row / 2, low = First + half * 2;
  const u32 offset = rows.offset[Row];
  const char* target = rows.sums + (offset + column);
  if (Row % 2 == 0) {
    red_add_v4_f32_below<kNoRow>(offset, target, rows.odd ? other[half][0] : d[low], rows.odd ? other[half][1] : d[low + 1],
                                 rows.odd ? other[half][2] : d[low + 4], rows.odd ? other[half][3] : d[low + 5]);
  } else {
    red_add_v4_f32_below<kNoRow>(offset, target, rows.odd ? d[low + 8] : other[half][0],
                                 rows.odd ? d[low + 9] : other[half][1], rows.odd ? d[low + 12] : other[half][2],
                                 rows.odd ? d[low + 13] : other[half][3]);
  }
}

// The eight reductions of a 64-column panel.
PTX_FN void reduce_panel(const float (&d)[32], const ReductionRows& rows, u32 column) {
  float other[2][4];
  exchange_halves<0>(d, rows.odd, other);
  reduce_row<0, 0>(d, rows, other, column);
  reduce_row<0, 1>(d, rows, other, column);
  reduce_row<0, 2>(d, rows, other, column);
  reduce_row<0, 3>(d, rows, other, column);
  exchange_halves<16>(d, rows.odd, other);
  reduce_row<16, 0>(d, rows, other, column + 128);
  reduce_row<16, 1>(d, rows, other, column + 128);
  reduce_row<16, 2>(d, rows, other, column + 128);
  reduce_row<16, 3>(d, rows, other, column + 128);
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

// Columns column .. column + Columns of a warp's 16 rows of d_q.
template <int Columns>
PTX_FN void store_d_q(const Arguments& args, const Place& place, int warp, int lane, int column,
                      const float (&d)[Columns / 2]) {
  const int quad = lane & 3;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const HeadRow row = head_row(args, place, warp * 16 + (lane >> 2) + half * 8);
    u16* out = (u16*)args.d_q + offset_of(args.d_q_strides, place.b, row.s, row.head) + column + quad * 8;
#pragma unroll
    for (int block = 0; block < Columns / 32; ++block) {
      const int i = block * 16 + half * 2;
      store_32_columns(out + block * 32, row.exists, quad, pack(d[i], d[i + 1]), pack(d[i + 4], d[i + 5]), pack(d[i + 8], d[i + 9]),
                       pack(d[i + 12], d[i + 13]));
    }
  }
}
