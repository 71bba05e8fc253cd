// backward, schedule wgmma_pair: d_q and the sums of d_kv on Hopper, two CTAs of a cluster for a token of 65 to 128
// heads (or of a multiple of 128), 64 heads each. Both walk the token's list in step. Each computes the scores and d_q
// of its heads as in schedule wgmma; of d_kv each reduces half the columns, for the heads of both (wgmma_exchange.cuh):
// a row leaves an SM once, where two CTAs on their own would reduce it twice.
//
// Three warpgroups share a CTA; a step is a tile of 64 kv rows, of which each does its part:
//
//   gather    as in schedule wgmma (wgmma_gather.cuh); the last kv panel comes when the peer's chunks have left it
//   score     S, dP, P and dS to shared memory and back as fragments; d_q's first half; the chunks of d_kv that the peer owns,
//             the first of them ahead of d_q; then the last own chunk (send_tile, written out by the generator)
//   gradient  dS as fragments, d_q's second half, P and dS transposed while that runs; then the own chunks: add what came,
//             reduce, between the wgmmas of the next (own_tile, written out by the generator)
//
//   time ->   | tile j                                                                                  | tile j+1
//   gather    | group 0 | group 1 | group 2 .......... wait for free groups ........ | last panel       | group 0 ...
//   score     | S (as groups land)  dP | exp2, dS | send 0 | d_q left | send 1 .. 8 | own 8, red        | S ...
//   gradient  | (tile j-1: own chunks, red)       | d_q right, fragments | own 0 .. 7, red ......................
//
// Barriers as in schedule wgmma and those of the exchange. full[3] and empty[3] are of the last kv panel, which the
// gradient warps give to the peer (kv_open) when d_q has read it and to the gather (empty[3]) when they have taken chunk
// 4. P_FREE (gradient -> score): what this warpgroup takes from
// where P and dS lie has been taken, so it comes while the last chunk is still being reduced; the score warps have
// taken theirs. SCORE_ONLY: the score warps load what all four of them stored.
//
// Rounding: what crosses is d_kv's sum over 64 heads of a token in bf16. The other half stays in fp32, as the sums over
// tokens do. d_kv as bf16 is 2.6e-3 off (fp32 output: 2.0e-3) where that of schedule wgmma is 2.35e-3 off (1.65e-3).
//
// Measured, H200, 128 heads, 576 columns, topk 2,048, 4,096 tokens, whole call with L2 flushed, cool / steady
// (power-capped):
//   two CTAs of schedule wgmma                                           11.65 / 13.85 ms
//   four slots in P and dS, chunk 0 by the gradient warpgroup            11.65 / 13.16
//   and two slots in the last kv panel (predicted 10 % of the clocks)    11.17 / 12.91
//   2 wgmmas before each reduction instead of 4                          11.04 / 12.88 (1: 10.95 / 12.54, 8: 11.57 / 13.26)
//   all chunks for the peer by the score warpgroup, the first ahead of
//   d_q; P given back when the last chunk is here                        10.85 / 12.65
//   descriptors add the half as one immediate                            10.82 / 12.58
//   the last own chunk by the score warpgroup (two 10.96, three 11.54)   10.77 / 12.51
//   rows as pointers instead of offsets: spills                          11.09 / 12.76, dropped
//   8 rows x 64 bytes a reduction, no exchange between lanes             11.80 / 13.32, dropped
//   acquire.cta instead of acquire.cluster in the waits                  the same
//   32,768 tokens (two CTAs of schedule wgmma: 105.9 / 112.2)            91.8 / 102.7
#pragma once

PTX_FN void score_role(const Arguments& args, const char* own_sums, int tiles, int thread) {
  const int warp = thread >> 5, lane = thread & 31;
  float d_q[128] = {}, d_q_tail[16] = {};
  float lse[2], delta[2] = {};
  load_two_rows(args, args.row_lse, infinity(), lse, warp * 16 + (lane >> 2));
  mbarrier_wait_parity(own(Shared::q_ready), 0);

#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    u32 ds_of_heads[4][4];
    {
      float s[32], dp[32];
      u32 p[4][4];
      scores(args, tile, warp, lane, lse, delta, s, dp, p, ds_of_heads);
      // Anew for each tile: there is no register left to keep it in.
      const u32 p_target = own(Shared::p + panel_offset<64>((int)tid_x() / 32 * 16 + (lane & 15), lane >> 4));
      bar_sync(P_FREE, 256);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const u32 target = p_target ^ (k * 32);
        stmatrix_x4(target, p[k][0], p[k][1], p[k][2], p[k][3]);
        stmatrix_x4(target + kPanel, ds_of_heads[k][0], ds_of_heads[k][1], ds_of_heads[k][2], ds_of_heads[k][3]);
      }
    }
    bar_arrive(P_READY, 256);
    bar_sync(SCORE_ONLY, 128);
    u32 p[4][4], ds[4][4];
    load_transposed(p, ds, thread);
    open_p(and_of(p) & and_of(ds), lane == 0);
    send_tile(d_q, d_q_tail, ds_of_heads, p, ds, reduction_rows(own_sums, tile, warp, lane), tile, thread);
  }
  store_d_q<256>(args, 0, d_q);
  if (kHasTail) store_d_q<32>(args, 256, d_q_tail);
}

PTX_FN void gradient_role(const Arguments& args, const char* own_sums, int tiles, int thread) {
  const int warp = thread >> 5, lane = thread & 31;
  if (Spec::delta_in_backward) compute_delta(args, tiles == 0, warp, lane);
  float d_q[128] = {}, d_q_first[16] = {};
  const u32 ds_source = own(Shared::ds + panel_offset<64>(warp * 16 + (lane & 15), lane >> 4));
  mbarrier_wait_parity(own(Shared::q_ready), 0);
  fence_proxy_async();
  if (tiles > 0) bar_arrive(P_FREE, 256);

#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    bar_sync(P_READY, 256);
    u32 ds_of_heads[4][4];
#pragma unroll
    for (int k = 0; k < 4; ++k) ldmatrix_x4(ds_of_heads[k], ds_source ^ (k * 32));
    const ReductionRows rows = reduction_rows(own_sums, tile, warp, lane);
    own_tile(d_q, d_q_first, ds_of_heads, rows, tile, thread, tile + 1 < tiles);
  }
  store_d_q<256>(args, kHasTail ? 320 : 256, d_q);
  if (kHasTail) store_d_q<32>(args, 288, d_q_first);
}

PTX_FN void backward(const Arguments& args) {
  if (!is_wanted(args) || !find_part(args)) return;
  PTX_DYNAMIC_SHARED(shared);
  if (!are_as_mapa_says(shared_address(shared))) __trap();
  if (threadIdx.x == 0) {
    init_barriers();
    init_exchange();
  }
  barrier_cluster_arrive_release();
  barrier_cluster_wait_acquire();

  // A dead token has no tiles: its d_q leaves as the zeros that the accumulators begin with.
  const int warpgroup = (int)threadIdx.x / 128, thread = (int)threadIdx.x % 128;
  if (warpgroup == 2) {
    setmaxnreg_dec<24>();
    gather_role(args, thread);
  } else {
    const Place place = own_place(args);
    const int end = own_end(args, place);
    const char* own_sums = sums_of(args, place) + cluster_ctarank() * 128;
    setmaxnreg_inc<240>();
    const int tiles = tiles_of(end - own_begin());
    if (warpgroup == 0) {
      score_role(args, own_sums, tiles, thread);
    } else {
      gradient_role(args, own_sums, tiles, thread);
    }
  }
  // No barrier at the end: all that the peer sends to this CTA, chunks and arrivals, has been waited for here.
}
