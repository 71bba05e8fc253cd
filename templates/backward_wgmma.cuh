// backward, schedule wgmma: d_q and the sums of d_kv on Hopper, one CTA 64 rows of q: block_tokens neighbouring tokens
// of block_h heads each. Tokens that share a CTA share a list (sort_lists), in which each kv row says whose it is: it is
// gathered once, its P is 0 for the other tokens, and its d_kv leaves in one reduction. Rows that are no head or no token
// are zeros with a denominator of +inf.
//
// Three warpgroups share the CTA; a step is a tile of 64 kv rows, of which each does its part:
//
//   gather    reads the list, zero-fills rows that do not count, writes the tile's row offsets (kNoRow: no reduction),
//             copies the rows by cp.async in three groups of up to three 64-column panels
//   score     S = q k^T, dP = d_o v^T, P and dS to shared memory; d_q's first half; then the top d_kv panels
//   gradient  P^T, dS^T to registers; d_q's second half; the other d_kv panels in chunks of 32 columns, the reductions
//             of one chunk between the wgmmas of the next (gradient_tile, written out by the generator)
//
//   time ->   | tile j                                                              | tile j+1
//   gather    | group 0 | group 1 | group 2 ............ wait for free groups       | group 0 ...
//   score     | S (as groups land)  dP | exp2, dS | d_q left | d_kv top panels, red | S ...
//   gradient  | (tile j-1: d_kv, red)         | P^T dS^T | d_q right + d_kv, red ........
//
// Barriers. mbarriers: q_ready (q and d_o have landed), full[3] (a group of panels has landed, 128 copies' arrivals),
// empty[3] (a group is free: group 0 by the score warps, 1 by both, 2 by the gradient warps; one arrival a warp),
// offsets_ready (the tile's row offsets are written). Named: P_READY (score -> gradient: P and dS are written), P_FREE
// (gradient -> score: P and dS are in registers or used), SCORE_ONLY (the score warps among themselves: the d_kv panels
// below read P and dS rows that all four of its warps stored, and nothing else orders those), GATHER_ONLY (where in the
// sweep this CTA starts), DELTA_READY (gradient -> score, once: delta of the 64 heads is in shared memory).
// Nobody arrives on a barrier two phases ahead: the offsets of tile j are written after empty[2] of tile j - 1.
//
// Deterministic problems (fixed_point.cuh): the offsets come with the rows' exponents; the gradient warpgroup reads P^T and
// dS^T from shared memory and gives them back (P_FREE) before its last chunk leaves; the score warpgroup computes its top
// panels one at a time. Registers go into conversions instead.
//
// Registers: 240 + 240 + 24 a thread of the three warpgroups, 64,512 in all, what 384 threads are launched with.
// Shared memory: q, d_o, one tile of kv, P and dS in swizzled panels, two tables of row offsets, the barriers.
//
// Lessons that shaped it (measured on an H200): the base of shared memory is a compile-time constant, so descriptors are
// immediates; nothing that loads queues behind the reductions (offsets come through shared memory, shuffles batched);
// a reduction of fp32 is 4 rows x 128 bytes, for which lanes l and l ^ 4 exchange halves: 28.7 GB/s an SM against 23.7
// for 8 rows x 64 bytes. Network floor of a call of 64 heads, 4,096 tokens, topk 2,048, fp32 sums: 5.42 ms = 545 TFLOPS.
//
// Measured, H200, 64 heads, 576 columns, topk 2,048, 4,096 tokens, whole call with L2 flushed, cool / steady (power-capped):
//   delta in preprocess                                          5.83 / 6.91 ms
//   delta here                                                   5.81 / 6.90, and 0.61 instead of 0.65 ms at 64 entries
//   and q, o, d_o of the next CTA prefetched into L2             5.87 / 6.92: dropped; where lists are short alone, 0.73
//                                                                instead of 0.60 ms at 64 entries: dropped
//   1 token of 16 heads a CTA (block_h 64, padded)               5.81 / 6.13
//   4 tokens of 16 heads (random lists: 3,840 rows instead of
//   8,192; predicted from the tiles: 2.75 / 3.24)                2.79 / 3.20
//   2 of 32 heads (3,072 rows; 4.40 / 5.2); 8 of 8 (4,080 rows)  4.43 / 5.09; 1.51 / 1.70
//   64 heads, partial sums (spike, backward alone: 4.67 / 5.35)  4.86 / 5.72 of 5.12 / 6.02
//   64 heads, deterministic (floor of twice the bytes: 10.8)     12.4 / 12.6
//   CTAs that stay and take blocks from a counter, copying the
//   next block's q and d_o while the last tile is worked on      5.88 / 7.00: dropped; the gather's spills queue behind
//                                                                the reductions, and the power cap takes back the rest
#pragma once

// ---- the sweep: all CTAs read the kv rows in the same order at the same time ----
//
// With lists in row order and more d_kv_sum than L2 holds, each row should be fetched and written back once while the
// whole grid passes it. counters[0] adds up the tiles of all CTAs, each as kSweep / tiles, so that counters[0] / ctas_in_flight
// is the mean CTA's progress; a new CTA starts its list there and wraps round. Measured at 32k rows: 222 -> 435 TFLOPS.

constexpr u32 kSweep = 4096;  // one pass over all rows

PTX_FN int block_length(const Arguments& args, const Place& place) {
  return (int)ld_global_nc_u32(args.block_length + place.list);
}
PTX_FN int tiles_of(int length) { return (length + 63) / 64; }

PTX_FN u32 sweep_tile(const Arguments& args, u32 counter, int tiles) {
  return ((counter / (u32)args.ctas_in_flight) & (kSweep - 1)) * (u32)tiles / kSweep;
}

// Deterministic: every list starts at its beginning, so that d_q does not depend on when its CTA ran. The sweep is kept
// by the throttle alone, which takes a CTA's place in the grid for what the counter should be by then: each list adds
// kSweep in all, an empty one too.
PTX_FN u32 counter_of_wave(const Arguments& args) {
  return ctaid_x() / (u32)args.ctas_in_flight * (kSweep * (u32)args.ctas_in_flight);
}

// What a tile adds to the counter.
PTX_FN u32 progress(int done, int tiles) {
  const u32 step = ld_shared_u32(Shared::sweep_step);
  return Spec::deterministic && done + 1 == tiles ? kSweep - (u32)done * step : step;
}

// Waits, a bounded number of polls, while this CTA is ahead of the grid's mean by more than args.throttle CTA-tiles.
PTX_FN void throttle(const Arguments& args, int done) {
  if (ctaid_x() + 2 * (u32)args.ctas_in_flight >= gridDim.x) return;  // the last waves have nobody to wait for
  const u32 counter_at_start = ld_shared_u32(Shared::sweep_counter), step = ld_shared_u32(Shared::sweep_step);
  const u32 own = counter_at_start + (u32)done * step * (u32)args.ctas_in_flight;
  for (int polls = 0; polls < 64; ++polls) {
    if ((int)(own - ld_relaxed_gpu_u32(args.counters)) <= args.throttle * (int)step) return;
  }
}

// ---- gather ----

// The 64 rows of q and d_o. Eight threads take a row, 16 bytes of each panel.
PTX_FN void load_heads(const Arguments& args, const Place& place, int row0, int lane8) {
#pragma unroll 1
  for (int i = row0; i < 64; i += 16) {
    const HeadRow row = head_row(args, place, i);
    const u16* q = (const u16*)args.q + offset_of(args.q_strides, place.b, row.s, row.head) + lane8 * 8;
    const u16* d_o = (const u16*)args.d_o + offset_of(args.d_o_strides, place.b, row.s, row.head) + lane8 * 8;
    const u32 target = panel_offset<64>(i, lane8);
    const int bytes = row.exists ? 16 : 0;
#pragma unroll
    for (int panel = 0; panel < kQkPanels; ++panel) {
      cp_async_16_zfill(Shared::q + panel * kPanel + target, q + panel * 64, bytes);
    }
#pragma unroll
    for (int panel = 0; panel < kVPanels; ++panel) {
      cp_async_16_zfill(Shared::d_o + panel * kPanel + target, d_o + panel * 64, bytes);
    }
  }
  cp_async_mbarrier_arrive_noinc(Shared::q_ready);
}

// Finds where in its list this CTA starts. Lists in row order that are not swept start at places of their own, or all
// CTAs would reduce into the same rows at once.
PTX_FN void start_sweep(const Arguments& args, const Place& place, int tiles, int thread) {
  if (thread == 0) {
    const u32 counter = !args.sweep ? 0 : Spec::deterministic ? counter_of_wave(args) : ld_relaxed_gpu_u32(args.counters);
    const u32 own_place = kShared && !args.sweep ? ((u32)place.list * 0x9e3779b9u >> 16) * (u32)tiles >> 16 : 0;
    const bool fixed_place = Spec::deterministic || (kShared && !args.sweep);
    st_shared_u32(Shared::sweep_tile, fixed_place ? own_place : sweep_tile(args, counter, tiles));
    st_shared_u32(Shared::sweep_counter, counter);
    st_shared_u32(Shared::sweep_step, kSweep / (u32)tiles);
  }
  bar_sync(GATHER_ONLY, 128);
}

// Which tile of the list comes after `done` others.
PTX_FN int tile_after(int done, int tiles) {
  const int tile = (int)ld_shared_u32(Shared::sweep_tile) + done;
  return tile < tiles ? tile : tile - tiles;
}

PTX_FN void gather_role(const Arguments& args, int thread) {
  const int row0 = thread >> 3, lane8 = thread & 7;  // rows row0, row0 + 16, row0 + 32, row0 + 48 of a tile
  const Place place = place_of(args, ctaid_x());
  load_heads(args, place, row0, lane8);  // before the list is known: the longest way is that of q and d_o
  const int length = block_length(args, place), tiles = tiles_of(length);
  if (tiles == 0) {
    if (Spec::deterministic && args.sweep && thread == 0) red_add_u32(args.counters, kSweep);
    return;
  }

  const char* kv =
      (const char*)((const u16*)args.kv + offset_of(args.kv_strides, place.b, 0, place.group)) + lane8 * 16;
  const int* list = list_of(args, place) + row0;
  const u32 limit = kShared ? 0x7fffffffu : key_limit(args, place.s);  // a shared list has been through key_limit
  const u32 target = Shared::kv + panel_offset<64>(row0, lane8);       // row0 + 16 i has the same swizzle
  start_sweep(args, place, tiles, thread);

  int entry[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) entry[i] = row_at(list, tile_after(0, tiles) * 64 + i * 16, length - row0, limit);

#pragma unroll 1
  for (int done = 0; done < tiles; ++done) {
    if (args.throttle > 0) throttle(args, done);
    if (args.prefetch && lane8 == 0) {
      const char* sums = sums_of(args, place);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (entry[i] >= 0) {
          cp_async_bulk_prefetch_L2(sums + (long long)row_of(entry[i]) * Spec::sum_row_bytes, Spec::sum_row_bytes);
        }
      }
    }
#pragma unroll
    for (int group = 0; group < 3; ++group) {
      mbarrier_wait_parity(Shared::empty + group * 8, (done & 1) ^ 1);
      // After empty[2] both consumers have used the offsets of two tiles ago, and have waited for the last ones.
      if (group == 2 && lane8 < kOffsetLanes) {
        store_row_offsets(args, place, (u32)(done & 1) * 256 + row0 * 4, entry, lane8);
        mbarrier_arrive(Shared::offsets_ready);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = row_of(max(entry[i], 0));
        const char* source = kv + (long long)row * (int)(args.kv_strides.token * 2);  // one 32 x 32 bit product
#pragma unroll
        for (int panel = group * kGroupPanels; panel < (group + 1) * kGroupPanels && panel < kQkPanels; ++panel) {
          cp_async_16_zfill(target + i * (16 * 128) + panel * kPanel, source + panel * 128, entry[i] < 0 ? 0 : 16);
        }
      }
      cp_async_mbarrier_arrive_noinc(Shared::full + group * 8);
    }
    if (done + 1 < tiles) {
      const int position = tile_after(done + 1, tiles) * 64;
#pragma unroll
      for (int i = 0; i < 4; ++i) entry[i] = row_at(list, position + i * 16, length - row0, limit);
    }
    if (args.sweep && thread == 0) red_add_u32(args.counters, progress(done, tiles));
  }
}

// ---- score ----

// d_kv of one 64-column panel: dS^T q and, in the value columns, + P^T d_o.
PTX_FN void d_kv_panel(float (&d)[32], int panel) {
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    wgmma_n64_ss<1, 1>(d, mn_major(Shared::ds + k * 2048), mn_major(Shared::q + panel * kPanel + k * 2048), k > 0);
  }
  if (panel < kVPanels) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      wgmma_n64_ss<1, 1>(d, mn_major(Shared::p + k * 2048), mn_major(Shared::d_o + panel * kPanel + k * 2048), 1);
    }
  }
  wgmma_commit_group();
}

// The top three panels, in turn in the accumulators that S and dP have left: the wgmmas of one run under the reductions
// of the one before.
PTX_FN void reduce_top_panels(float (&s)[32], float (&dp)[32], const ReductionRows& rows) {
  constexpr int kTop = kQkPanels - 1;
  if (Spec::deterministic) {  // the conversions need the registers of the second accumulator
    for (int panel = kTop; panel > kTop - 3; --panel) {
      d_kv_panel(s, panel);
      wgmma_wait_group<0>();
      reduce_panel(s, rows, panel * 64);
    }
    return;
  }
  d_kv_panel(s, kTop);
  d_kv_panel(dp, kTop - 1);
  wgmma_wait_group<1>();
  reduce_panel(s, rows, kTop * 64);
  d_kv_panel(s, kTop - 2);
  wgmma_wait_group<1>();
  reduce_panel(dp, rows, (kTop - 1) * 64);
  wgmma_wait_group<0>();
  reduce_panel(s, rows, (kTop - 2) * 64);
}

// What row_lse or row_delta holds for a row and the one eight further on; `absent` for rows that do not exist.
PTX_FN void load_two_rows(const Arguments& args, const float* values, float absent, float (&two)[2], int first) {
  const Place place = place_of(args, ctaid_x());
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const HeadRow row = head_row(args, place, first + i * 8);
    two[i] = row.exists ? ld_global_nc_f32(values + index_of(args, place, row)) : absent;
  }
}

// delta of a thread's two rows, from the gradient warpgroup or from preprocess.
PTX_FN void load_delta(const Arguments& args, float (&delta)[2], int row) {
  if (Spec::delta_in_backward) {
    bar_sync(DELTA_READY, 256);
    delta[0] = __uint_as_float(ld_shared_u32(Shared::delta + row * 4));
    delta[1] = __uint_as_float(ld_shared_u32(Shared::delta + row * 4 + 32));
  } else {
    load_two_rows(args, args.row_delta, 0.0f, delta, row);
  }
}

// Which of a tile's 64 kv rows count for a thread's two rows of scores, a bit each, shifted to this lane's columns.
// With blocks of 8 heads the two rows belong to two tokens.
constexpr int kTokensAWarp = Spec::block_h < 16 ? 2 : 1;

PTX_FN void rows_that_count(u32 (&counts)[kTokensAWarp][2], u32 offset_low, u32 offset_high, int warp, int lane) {
#pragma unroll
  for (int i = 0; i < kTokensAWarp; ++i) {
    const int token = (warp * 16 + i * 8) / Spec::block_h;
    const bool low = kShared ? offset_low >> token & 1 : offset_low < kNoRow;
    const bool high = kShared ? offset_high >> token & 1 : offset_high < kNoRow;
    counts[i][0] = __ballot_sync(0xffffffffu, low) >> ((lane & 3) * 2);
    counts[i][1] = __ballot_sync(0xffffffffu, high) >> ((lane & 3) * 2);
  }
}

PTX_FN void score_role(const Arguments& args, const char* sums, int tiles, int thread) {
  const int warp = thread >> 5, lane = thread & 31;
  float d_q[128] = {}, d_q_tail[16] = {};
  const int row = warp * 16 + (lane >> 2);  // and row + 8
  float lse[2], delta[2] = {};
  load_two_rows(args, args.row_lse, infinity(), lse, row);
  const float exponent = log2_scale(args, place_of(args, ctaid_x()));
  lse[0] -= exponent, lse[1] -= exponent;
  const u32 p_target = Shared::p + panel_offset<64>(warp * 16 + (lane & 15), lane >> 4);
  mbarrier_wait_parity(Shared::q_ready, 0);

#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    float s[32], dp[32];
#pragma unroll
    for (int group = 0; group < 3; ++group) {
      mbarrier_wait_parity(Shared::full + group * 8, tile & 1);
      fence_proxy_async();
      wgmma_fence();
#pragma unroll
      for (int panel = group * kGroupPanels; panel < (group + 1) * kGroupPanels && panel < kQkPanels; ++panel) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          wgmma_n64_ss<0, 0>(s, k_major(Shared::q + panel * kPanel + k * 32), k_major(Shared::kv + panel * kPanel + k * 32),
                             panel + k > 0);
        }
      }
    }
    wgmma_commit_group();
    wgmma_fence();
#pragma unroll
    for (int panel = 0; panel < kVPanels; ++panel) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        wgmma_n64_ss<0, 0>(dp, k_major(Shared::d_o + panel * kPanel + k * 32), k_major(Shared::kv + panel * kPanel + k * 32),
                           panel + k > 0);
      }
    }
    wgmma_commit_group();

    mbarrier_wait_parity(Shared::offsets_ready, tile & 1);
    const u32 table = Shared::row_offsets + (tile & 1) * 256 + lane * 4;
    const u32 offset_low = ld_shared_u32(table), offset_high = ld_shared_u32(table + 128);
    wgmma_wait_group<1>();
    u32 counts[kTokensAWarp][2];
    rows_that_count(counts, offset_low, offset_high, warp, lane);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int half = (i >> 1) & 1;
      const float e = ex2_approx_ftz(s[i] * args.scale_log2 - lse[half]);
      const int bit = ((i >> 2) & 3) * 8 + (i & 1);
      s[i] = (counts[half % kTokensAWarp][i / 16] >> bit) & 1 ? e : 0.0f;
    }
    wgmma_wait_group<0>();
    if (tile == 0) load_delta(args, delta, row);  // not earlier: the first scores need not wait for o

    u32 p[4][4], ds[4][4];  // as A fragments of 16 kv rows each
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int e = k * 8 + i * 2;
        p[k][i] = pack(s[e], s[e + 1]);
        ds[k][i] = pack(s[e] * (dp[e] - delta[i & 1]) * args.scale, s[e + 1] * (dp[e + 1] - delta[i & 1]) * args.scale);
      }
    }
    bar_sync(P_FREE, 256);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const u32 target = p_target ^ (k * 32);
      stmatrix_x4(target, p[k][0], p[k][1], p[k][2], p[k][3]);
      stmatrix_x4(target + kPanel, ds[k][0], ds[k][1], ds[k][2], ds[k][3]);
    }
    fence_proxy_async();
    bar_arrive(P_READY, 256);

    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      wgmma_n256_rs<1>(d_q, ds[k], mn_major(Shared::kv + k * 2048), 1);
      if (kHasTail) wgmma_n32_rs<1>(d_q_tail, ds[k], mn_major(Shared::kv + 4 * kPanel + k * 2048), 1);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    if (lane == 0) {
      mbarrier_arrive(Shared::empty);
      mbarrier_arrive(Shared::empty + 8);
    }
    bar_sync(SCORE_ONLY, 128);
    reduce_top_panels(s, dp, reduction_rows(sums, tile, warp, lane));
  }
  const Place place = place_of(args, ctaid_x());
  store_d_q<256>(args, place, warp, lane, 0, d_q);
  if (kHasTail) store_d_q<32>(args, place, warp, lane, 256, d_q_tail);
}

// ---- gradient ----

// Whether a row's token has no valid entry; what its o holds then is nobody's business.
PTX_FN bool is_dead(const Arguments& args, const Place& place, const HeadRow& row) {
  const long long list = (place.b * args.queries + row.s) * Spec::kv_groups + place.group;
  return !row.exists || ld_global_nc_u32(args.list_length + list) == 0;
}

// delta of the 64 rows, while the first tile is on its way: o from global memory, d_o from where the gather has put it.
// (In preprocess it would read d_o once more, 268 MB in a call of 4,096 tokens.) Eight lanes take a row.
PTX_FN void compute_delta(const Arguments& args, bool no_tiles, int warp, int lane) {
  const Place place = place_of(args, ctaid_x());
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
  mbarrier_wait_parity(Shared::q_ready, 0);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = i * 16 + warp * 4 + (lane >> 3);
    float delta = 0.0f;
#pragma unroll
    for (int panel = 0; panel < kVPanels; ++panel) {
      u32 d_o[4];
      ld_shared_v4_u32(d_o, Shared::d_o + panel * kPanel + panel_offset<64>(row, lane8));
      delta += dot_of_chunk(o[i][panel], d_o);
    }
#pragma unroll
    for (int step = 4; step > 0; step /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, step);
    if (lane8 == 0) {
      const HeadRow of_q = head_row(args, place, row);
      if (kShared ? is_dead(args, place, of_q) : no_tiles) delta = 0.0f;
      st_shared_u32(Shared::delta + row * 4, __float_as_uint(delta));
      if (Spec::has_sink && of_q.exists) st_global_f32(args.row_delta + index_of(args, place, of_q), delta);  // for d_sink
    }
  }
  if (!no_tiles) bar_arrive(DELTA_READY, 256);
}

PTX_FN void gradient_role(const Arguments& args, const char* sums, int tiles, int thread) {
  const int warp = thread >> 5, lane = thread & 31;
  if (Spec::delta_in_backward) compute_delta(args, tiles == 0, warp, lane);
  float d_q[128] = {}, d_q_first[16] = {};
  mbarrier_wait_parity(Shared::q_ready, 0);
  fence_proxy_async();
  if (tiles > 0) bar_arrive(P_FREE, 256);
  // ldmatrix.trans of P[head][kv row] gives the A fragments of P^T.
  const u32 p_source = Shared::p + panel_offset<64>((lane & 7) + ((lane >> 4) << 3), warp * 2 + ((lane >> 3) & 1));

#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    bar_sync(P_READY, 256);
    u32 p[4][4], ds[4][4];  // deterministic: not used, gradient_tile reads shared memory
#pragma unroll
    for (int k = 0; k < 4 && !Spec::deterministic; ++k) {
      ldmatrix_x4_trans(ds[k], p_source + kPanel + k * 2048);
      ldmatrix_x4_trans(p[k], p_source + k * 2048);
    }
    const ReductionRows rows = reduction_rows(sums, tile, warp, lane);
    gradient_tile(d_q, d_q_first, p, ds, rows, lane == 0, tile + 1 < tiles);
  }
  const Place place = place_of(args, ctaid_x());
  store_d_q<256>(args, place, warp, lane, kHasTail ? 320 : 256, d_q);
  if (kHasTail) store_d_q<32>(args, place, warp, lane, 288, d_q_first);
}

PTX_FN void backward(const Arguments& args) {
  if (!is_wanted(args)) return;
  PTX_DYNAMIC_SHARED(shared);
  if (shared_address(shared) != kBase) __trap();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) mbarrier_init(Shared::full + i * 8, 128);
    mbarrier_init(Shared::empty, 4);
    mbarrier_init(Shared::empty + 8, 8);
    mbarrier_init(Shared::empty + 16, 4);
    mbarrier_init(Shared::q_ready, 128);
    mbarrier_init(Shared::offsets_ready, 16 * kOffsetLanes);
  }
  __syncthreads();

  // A dead row has no tiles: its d_q leaves as the zeros that the accumulators begin with.
  const int warpgroup = (int)threadIdx.x / 128, thread = (int)threadIdx.x % 128;
  if (warpgroup == 2) {
    setmaxnreg_dec<24>();
    gather_role(args, thread);
  } else {
    const Place place = place_of(args, ctaid_x());
    const int tiles = tiles_of(block_length(args, place));
    const char* sums = sums_of(args, place);
    setmaxnreg_inc<240>();
    if (warpgroup == 0) {
      score_role(args, sums, tiles, thread);
    } else {
      gradient_role(args, sums, tiles, thread);
    }
  }
}
