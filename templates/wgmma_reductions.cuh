// Schedules wgmma and wgmma_pair: reductions of accumulators into fp32 sums of d_kv (columns.cuh).
#pragma once

static_assert(Spec::sum_row_bytes % 256 == 0, "the low byte of a row offset is free for the tokens that name the row");

// What the gather tells the others of its four entries, `place` and 64 bytes on: their rows' byte offsets in the sums,
// and in the low byte the tokens that name them.
constexpr int kOffsetLanes = 1;  // of the eight lanes that share a row, those that tell
PTX_FN void store_row_offsets(const Arguments&, const Place&, u32 place, const int (&entry)[4], int) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 offset = (u32)row_of(entry[i]) * Spec::sum_row_bytes | tokens_of(entry[i]);
    st_shared_u32(own(Shared::row_offsets + place + i * 64), entry[i] < 0 ? kNoRow : offset);
  }
}

// Offsets of a thread's four rows (2 of the low eight, 2 of the high eight of its warp's 16) and its place in d_kv_sum.
struct ReductionRows {
  u32 offset[4];
  const char* sums;
  bool odd;  // lane bit 2: which half of a pair of rows this lane ends up with
};

struct Exchanged {
  float half[2][4];  // what came from lane ^ 4
};

PTX_FN ReductionRows reduction_rows(const char* sums, int tile, int warp, int lane) {
  ReductionRows rows;
  const u32 table = own(Shared::row_offsets + (tile & 1) * 256 + (warp * 16 + ((lane >> 2) & 6)) * 4);
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
PTX_FN void exchange_halves(const float* d, const ReductionRows& rows, Exchanged& other) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int low = First + (i >> 1) * 4 + half * 2 + (i & 1);
      other.half[half][i] = __shfl_xor_sync(0xffffffffu, rows.odd ? d[low] : d[low + 8], 4);
    }
  }
}

// One of the four reductions of 32 columns: Row of the thread's four rows, `column` counts columns.
template <int First, int Row>
PTX_FN void reduce_row(const float* d, const ReductionRows& rows, const Exchanged& other, u32 column) {
  constexpr int half = Row / 2, low = First + half * 2;
  const u32 offset = rows.offset[Row];
  const char* target = rows.sums + (offset + column * 4);
  if (Row % 2 == 0) {
    red_add_v4_f32_below<kNoRow>(offset, target, rows.odd ? other.half[half][0] : d[low], rows.odd ? other.half[half][1] : d[low + 1],
                                 rows.odd ? other.half[half][2] : d[low + 4], rows.odd ? other.half[half][3] : d[low + 5]);
  } else {
    red_add_v4_f32_below<kNoRow>(offset, target, rows.odd ? d[low + 8] : other.half[half][0],
                                 rows.odd ? d[low + 9] : other.half[half][1], rows.odd ? d[low + 12] : other.half[half][2],
                                 rows.odd ? d[low + 13] : other.half[half][3]);
  }
}
