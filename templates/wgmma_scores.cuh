// Schedules wgmma and wgmma_pair: the scores of a tile.
#pragma once

// What row_lse or row_delta holds for a row and the one eight further on; `absent` for rows that do not exist.
PTX_FN void load_two_rows(const Arguments& args, const float* values, float absent, float (&two)[2], int first) {
  const Place place = own_place(args);
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
    delta[0] = __uint_as_float(ld_shared_u32(own(Shared::delta + row * 4)));
    delta[1] = __uint_as_float(ld_shared_u32(own(Shared::delta + row * 4 + 32)));
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

// P and dS of a tile, as A fragments of 16 kv rows each: S = q k^T as the groups of kv panels land, dP = d_o v^T, the
// softmax again from lse, and dS = P (dP - delta), scaled. Rows that do not count get 0. s and dp are the accumulators,
// free afterwards.
PTX_FN void scores(const Arguments& args, int tile, int warp, int lane, const float (&lse)[2], float (&delta)[2], float (&s)[32],
                   float (&dp)[32], u32 (&p)[4][4], u32 (&ds)[4][4]) {
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    mbarrier_wait_parity(own(Shared::full + group * 8), tile & 1);
    fence_proxy_async();
    wgmma_fence();
#pragma unroll
    for (int panel = first_panel(group); panel < first_panel(group + 1); ++panel) {
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

  mbarrier_wait_parity(own(Shared::offsets_ready), tile & 1);
  const u32 table = own(Shared::row_offsets + (tile & 1) * 256 + lane * 4);
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
  if (tile == 0) load_delta(args, delta, warp * 16 + (lane >> 2));  // not earlier: the first scores need not wait for o

#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int e = k * 8 + i * 2;
      p[k][i] = pack(s[e], s[e + 1]);
      ds[k][i] = pack(s[e] * (dp[e] - delta[i & 1]) * args.scale, s[e + 1] * (dp[e + 1] - delta[i & 1]) * args.scale);
    }
  }
}
