// backward, schedule wgmma: d_q and the sums of d_kv on Hopper, one CTA 64 rows of q: block_tokens neighbouring tokens
// of block_h heads each. Tokens that share a CTA share a list (sort_lists), in which each kv row says whose it is: it
// is gathered once, its P is 0 for the other tokens, and its d_kv leaves in one reduction. Rows that are no head or no
// token are zeros with a denominator of +inf.
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
// The last wave: blocks beyond the last whole wave of CTAs are worked on by several CTAs each, every one with its part
// of the list, and postprocess adds up their d_q (wgmma_shares.cuh). The part is known before the loop over tiles.
//
// Deterministic problems (fixed_point.cuh): the offsets come with the rows' exponents; the gradient warpgroup reads P^T
// and dS^T from shared memory and gives them back (P_FREE) before its last chunk leaves; the score warpgroup computes
// its top panels one at a time. Registers go into conversions instead.
//
// Registers: 240 + 240 + 24 a thread of the three warpgroups, 64,512 in all, what 384 threads are launched with.
// Shared memory: q, d_o, one tile of kv, P and dS in swizzled panels, two tables of row offsets, the barriers.
//
// Lessons that shaped it (measured on an H200): the base of shared memory is a compile-time constant, so descriptors
// are immediates; nothing that loads queues behind the reductions (offsets come through shared memory, shuffles
// batched); a reduction of fp32 is 4 rows x 128 bytes, for which lanes l and l ^ 4 exchange halves: 28.7 GB/s an SM
// against 23.7 for 8 rows x 64 bytes. Network floor of a call of 64 heads, 4,096 tokens, topk 2,048, fp32 sums: 5.42 ms
// = 545 TFLOPS.
//
// Measured, H200, 64 heads, 576 columns, topk 2,048, 4,096 tokens, whole call with L2 flushed, cool / steady
// (power-capped):
//   delta in preprocess                                          5.83 / 6.91 ms
//   delta here                                                   5.81 / 6.90, and 0.61 instead of 0.65 ms at 64 entries
//   and q, o, d_o of the next CTA prefetched into L2             5.87 / 6.92: dropped; where lists are short alone, 0.73
//                                                                instead of 0.60 ms at 64 entries: dropped
//   1 token of 16 heads a CTA (block_h 64, padded)               5.81 / 6.13
//   4 tokens of 16 heads (random lists: 3,840 rows instead of
//   8,192; predicted from the tiles: 2.75 / 3.24)                2.79 / 3.20
//   2 of 32 heads (3,072 rows; 4.40 / 5.2); 8 of 8 (4,080 rows)  4.43 / 5.09; 1.51 / 1.70
//   64 heads, partial sums (spike, backward alone: 4.67 / 5.35)  4.86 / 5.72 of 5.12 / 6.02
//   of those 32 more columns by the gradient warpgroup (it waits
//   for 1,200 of 8,700 clocks a tile; predicted 5 % less)        5.06 / 6.17 instead of 5.06 / 5.96: dropped
//   the last 4 of 4,096 tokens over all SMs, not over 4 (5.76;
//   but alone in the machine those 4 had run faster)             5.83 / 6.95 instead of 5.89 / 6.99; 16 tokens 0.057
//                                                                instead of 0.204
//   64 heads, deterministic (floor of twice the bytes: 10.8)     12.4 / 12.6
//   CTAs that stay and take blocks from a counter, copying the
//   next block's q and d_o while the last tile is worked on      5.88 / 7.00: dropped; the gather's spills queue behind
//                                                                the reductions, and the power cap takes back the rest
#pragma once

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

PTX_FN void score_role(const Arguments& args, const char* sums, int tiles, int thread) {
  const int warp = thread >> 5, lane = thread & 31;
  float d_q[128] = {}, d_q_tail[16] = {};
  const int row = warp * 16 + (lane >> 2);  // and row + 8
  float lse[2], delta[2] = {};
  load_two_rows(args, args.row_lse, infinity(), lse, row);
  const float exponent = log2_scale(args, own_place(args));
  lse[0] -= exponent, lse[1] -= exponent;
  mbarrier_wait_parity(Shared::q_ready, 0);

#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    float s[32], dp[32];
    u32 p[4][4], ds[4][4];
    scores(args, tile, warp, lane, lse, delta, s, dp, p, ds);
    // Anew for each tile: there is no register left to keep it in.
    const u32 p_target = Shared::p + panel_offset<64>((int)tid_x() / 32 * 16 + (lane & 15), lane >> 4);
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
  store_d_q<256>(args, 0, d_q);
  if (kHasTail) store_d_q<32>(args, 256, d_q_tail);
}

// ---- gradient ----

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
  store_d_q<256>(args, kHasTail ? 320 : 256, d_q);
  if (kHasTail) store_d_q<32>(args, 288, d_q_first);
}

PTX_FN void backward(const Arguments& args) {
  if (!is_wanted(args) || (kSplits && !find_part(args))) return;
  PTX_DYNAMIC_SHARED(shared);
  if (shared_address(shared) != kBase) __trap();
  if (threadIdx.x == 0) init_barriers();
  __syncthreads();

  // A dead row has no tiles: its d_q leaves as the zeros that the accumulators begin with.
  const int warpgroup = (int)threadIdx.x / 128, thread = (int)threadIdx.x % 128;
  if (warpgroup == 2) {
    setmaxnreg_dec<24>();
    gather_role(args, thread);
  } else {
    const Place place = own_place(args);
    const int end = own_end(args, place);
    const char* sums = sums_of(args, place);
    setmaxnreg_inc<240>();
    const int tiles = tiles_of(end - own_begin());
    if (warpgroup == 0) {
      score_role(args, sums, tiles, (int)tid_x());  // the first 128
    } else {
      gradient_role(args, sums, tiles, thread);
    }
  }
}
