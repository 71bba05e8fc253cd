// Schedule wgmma_pair: the reductions of wgmma_reductions.cuh with the exchange between lanes done in the accumulators
// themselves: what the peer sent takes the registers that the exchanged values have there.
#pragma once

// Lanes l and l ^ 4 exchange halves of 32 columns; then d[0 .. 7] belong to the even one of two neighbouring rows and
// the rest to the odd one.
PTX_FN void exchange_in_place(float (&d)[16], const ReductionRows& rows) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int low = (i >> 1) * 4 + half * 2 + (i & 1);
      const float other = __shfl_xor_sync(0xffffffffu, rows.odd ? d[low] : d[low + 8], 4);
      d[low] = rows.odd ? other : d[low];
      d[low + 8] = rows.odd ? d[low + 8] : other;
    }
  }
}

// One of the four reductions of 32 columns: Row of the thread's four rows, `column` counts columns.
template <int Row>
PTX_FN void reduce_exchanged_row(const float (&d)[16], const ReductionRows& rows, u32 column) {
  constexpr int i = Row % 2 * 8 + Row / 2 * 2;
  const u32 offset = rows.offset[Row];
  red_add_v4_f32_below<kNoRow>(offset, rows.sums + (offset + column * 4), d[i], d[i + 1], d[i + 4], d[i + 5]);
}
