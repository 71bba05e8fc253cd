// Schedules wgmma and wgmma_pair: delta, the dot product of o and d_o, computed in the backward itself.
#pragma once

// Whether a row's token has no valid entry; what its o holds then is nobody's business.
PTX_FN bool is_dead(const Arguments& args, const Place& place, const HeadRow& row) {
  const long long list = (place.b * args.queries + row.s) * Spec::kv_groups + place.group;
  return !row.exists || ld_global_nc_u32(args.list_length + list) == 0;
}

// delta of the 64 rows, while the first tile is on its way: o from global memory, d_o from where the gather has put it.
// (In preprocess it would read d_o once more, 268 MB in a call of 4,096 tokens.) Eight lanes take a row.
PTX_FN void compute_delta(const Arguments& args, bool no_tiles, int warp, int lane) {
  const Place place = own_place(args);
  const int lane8 = lane & 7;
  u32 o[4][kVPanels][4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const HeadRow row = head_row(args, place, i * 16 + warp * 4 + (lane >> 3));
    const u16* source = (const u16*)args.o + offset_of(args.o_strides, place.b, row.s, row.head) + lane8 * 8;
#pragma unroll
    for (int panel = 0; panel < kVPanels; ++panel) {
      if (row.exists) ld_global_nc_v4_u32(o[i][panel], source + panel * 64);
    }
  }
  mbarrier_wait_parity(own(Shared::q_ready), 0);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = i * 16 + warp * 4 + (lane >> 3);
    float delta = 0.0f;
#pragma unroll
    for (int panel = 0; panel < kVPanels; ++panel) {
      u32 d_o[4];
      ld_shared_v4_u32(d_o, own(Shared::d_o + panel * kPanel + panel_offset<64>(row, lane8)));
      delta += dot_of_chunk(o[i][panel], d_o);
    }
#pragma unroll
    for (int step = 4; step > 0; step /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, step);
    if (lane8 == 0) {
      const HeadRow of_q = head_row(args, place, row);
      if (kShared ? is_dead(args, place, of_q) : no_tiles) delta = 0.0f;
      st_shared_u32(own(Shared::delta + row * 4), __float_as_uint(delta));
      if (Spec::has_sink && of_q.exists && own_begin() == 0) {  // for d_sink
        st_global_f32(args.row_delta + index_of(args, place, of_q), delta);
      }
    }
  }
  if (!no_tiles) bar_arrive(DELTA_READY, 256);
}
