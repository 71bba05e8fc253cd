// Schedule wgmma: reductions of accumulators into sums of 64-bit integers (fixed_point.cuh), in the place of
// wgmma_reductions.cuh.
#pragma once

static_assert(Spec::sum_row_bytes % 256 == 0, "the low byte of a row offset is free for the tokens that name the row");

// What the gather tells the others of its four entries, `place` and 64 bytes on: their rows' byte offsets in the sums
// with the tokens that name them in the low byte, and their codes. A lane takes a row: the gather has 24 registers.
constexpr int kOffsetLanes = 4;  // of the eight lanes that share a row, those that tell
PTX_FN void store_row_offsets(const Arguments& args, const Place& cta, u32 place, const int (&entry)[4], int lane8) {
  const int mine = lane8 == 0 ? entry[0] : lane8 == 1 ? entry[1] : lane8 == 2 ? entry[2] : entry[3];
  u32 offset = kNoRow, code = 0;
  if (mine >= 0) {
    offset = (u32)row_of(mine) * Spec::sum_row_bytes;
    code = code_of_row(sums_of(args, cta.b, cta.group) + offset);
    offset |= tokens_of(mine);
  }
  st_shared_u32(Shared::row_offsets + place + lane8 * 64, offset);
  st_shared_u32(Shared::row_codes + place + lane8 * 64, code);
}

// A thread's eight rows (4 of the low eight, 4 of the high eight of its warp's 16), each a byte offset with the code in
// its low byte, and its place in a block.
struct ReductionRows {
  u32 word[8];
  const char* sums;
  int lane;
};
struct Exchanged {};  // nothing: values are exchanged in place

PTX_FN ReductionRows reduction_rows(const char* sums, int tile, int warp, int lane) {
  ReductionRows rows;
  const u32 place = (u32)(tile & 1) * 256 + (warp * 16 + (lane >> 4) * 4) * 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    u32 offset[4], code[4];
    ld_shared_v4_u32(offset, Shared::row_offsets + place + half * 32);
    ld_shared_v4_u32(code, Shared::row_codes + place + half * 32);
#pragma unroll
    for (int r = 0; r < 4; ++r) rows.word[half * 4 + r] = (offset[r] & ~255u) | code[r];
  }
  rows.sums = sums;
  rows.lane = lane;
  return rows;
}

// Spreads 32 columns (accumulators First .. First + 15): two blocks of 16 columns of the low and of the high rows.
template <int First, int Size>
PTX_FN void exchange_halves(float (&d)[Size], const ReductionRows& rows, Exchanged&) {
#pragma unroll
  for (int quad = 0; quad < 4; ++quad) {
    const int i = First + (quad >> 1) * 8 + (quad & 1) * 2;
    float x[4] = {d[i], d[i + 4], d[i + 1], d[i + 5]};
    spread(x, rows.lane);
    d[i] = x[0], d[i + 4] = x[1], d[i + 1] = x[2], d[i + 5] = x[3];
  }
}

// One of the four parts of 32 columns: two of the thread's eight rows.
template <int First, int Part, int Size>
PTX_FN void reduce_row(const float (&d)[Size], const ReductionRows& rows, const Exchanged&, u32 column) {
  constexpr int half = Part / 2;
#pragma unroll
  for (int r = Part % 2 * 2; r < Part % 2 * 2 + 2; ++r) {
    const u32 word = rows.word[half * 4 + r];
    const float scale = scale_of(word);
    const char* place = rows.sums + ((word & ~255u) + (u32)(rows.lane & 15) * 8);
    const int i = First + half * 2 + (r & 1) * 4 + (r >> 1);
    u32 outside = 0;
    const u64 low = to_integer(d[i] * scale, outside), high = to_integer(d[i + 8] * scale, outside);
    red_add_u64_below<kNoRow, 0>(word, place + column * 8, low);
    red_add_u64_below<kNoRow, 128>(word, place + column * 8, high);
    red_or_u32_below_above<kNoRow, kInside, (int)kMarks>(word, outside, place, 1);
  }
}
