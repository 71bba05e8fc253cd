// Schedule wgmma: reductions of accumulators into fp16 sums (partial_sums.cuh), in the place of wgmma_reductions.cuh.
#pragma once

// What the gather tells the others of its four entries, `place` and 64 bytes on: twice the byte offset of the row in
// the sums, which leaves the low byte for the tokens that name the row.
constexpr int kOffsetLanes = 1;  // of the eight lanes that share a row, those that tell
PTX_FN void store_row_offsets(const Arguments&, const Place&, u32 place, const int (&entry)[4], int) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 word = (u32)row_of(entry[i]) * (2 * Spec::sum_row_bytes) | tokens_of(entry[i]);
    st_shared_u32(Shared::row_offsets + place + i * 64, entry[i] < 0 ? kNoRow : word);
  }
}
static_assert(2 * Spec::sum_row_bytes % 256 == 0, "the low byte of a word is free");

// Words of a thread's two rows (lane / 4 and eight further on of its warp's 16) and its place in the sums.
struct ReductionRows {
  u32 word[2];
  const char* sums;
};
struct Exchanged {};  // a thread's eight columns of a row leave as they are

PTX_FN ReductionRows reduction_rows(const char* sums, int tile, int warp, int lane) {
  ReductionRows rows;
  const u32 table = Shared::row_offsets + (tile & 1) * 256 + (warp * 16 + (lane >> 2)) * 4;
  rows.word[0] = ld_shared_u32(table);
  rows.word[1] = ld_shared_u32(table + 32);
  rows.sums = sums + (lane & 3) * 16;
  return rows;
}

template <int First, int Size>
PTX_FN void exchange_halves(const float (&)[Size], const ReductionRows&, Exchanged&) {}

// One of the four parts of 32 columns (accumulators First .. First + 15): parts 0 and 2 are the two rows, 1 and 3
// empty.
template <int First, int Part, int Size>
PTX_FN void reduce_row(const float (&d)[Size], const ReductionRows& rows, const Exchanged&, u32 column) {
  if (Part % 2 != 0) return;
  constexpr int i = First + Part;
  const u32 word = rows.word[Part / 2];
  red_add_noftz_v4_f16x2_below<kNoRow>(word, rows.sums + ((word & ~255u) / 2 + column * 2),
                                       cvt_rn_f16x2_f32(d[i], d[i + 1]), cvt_rn_f16x2_f32(d[i + 4], d[i + 5]),
                                       cvt_rn_f16x2_f32(d[i + 8], d[i + 9]), cvt_rn_f16x2_f32(d[i + 12], d[i + 13]));
}
