// backward, schedule cp_async: d_q and the sums of d_kv on any GPU from sm_80 on.
// The structure of TileLang's sparse_mla_bwd: one CTA a token and head block, block_size kv rows a step.
//
// A step, all warps together:
//
//   gather   rows of the list by cp.async into a ring of `stages` tiles; rows that do not count are zero-filled, unread
//   scores   S = q k^T and dP = d_o v^T share the fragments of k; P = exp2(S - L), dS = scale * P (dP - delta), both
//            rounded once and stored to shared memory; entries that do not count get P = dS = 0
//   d_q      += dS k, in registers for the whole token
//   d_kv     dS^T q + P^T d_o, 16 columns at a time, straight from the accumulators to reductions
//
// Shared memory: q, d_o (block_h rows), `stages` tiles of kv (block_size rows), P and dS (block_h x block_size), all
// 16-bit, in swizzled panels (panels.cuh): 221,184 bytes for 64 heads, 576 / 512 columns, 32 rows, 2 stages.
//
// Barriers: one before the scores (the tile has landed, P and dS are free), one after (P and dS are written), and with
// a single stage one more before the next gather.
#pragma once

struct Shared {
  static constexpr int q = 0;
  static constexpr int d_o = q + Spec::block_h * Spec::d_qk * 2;
  static constexpr int kv = d_o + Spec::block_h * Spec::d_v * 2;
  static constexpr int kv_stage = Spec::block_size * Spec::d_qk * 2;
  static constexpr int p = kv + Spec::stages * kv_stage;
  static constexpr int ds = p + Spec::block_h * Spec::block_size * 2;
  static constexpr int bytes = ds + Spec::block_h * Spec::block_size * 2;
};

constexpr int kWarps = Spec::threads / 32;
constexpr int kChunks = Spec::d_qk / 16;   // of 16 columns: one A or B fragment of mma.m16n8k16, one quad of reductions
constexpr int kValueChunks = Spec::d_v / 16;
constexpr int kQkPanels = Spec::d_qk / 64;
constexpr int kVPanels = Spec::d_v / 64;

template <int A, int B>
constexpr int kSmaller = A < B ? A : B;
template <int A, int B>
constexpr int kCeilDiv = (A + B - 1) / B;

// Scores: a warp has 16 heads x kScoreTiles * 8 kv rows; with few rows some warps have none.
constexpr int kScoreWarpsM = kSmaller<Spec::block_h / 16, kWarps>;
constexpr int kScoreWarpsN = kWarps / kScoreWarpsM;
constexpr int kScoreTiles = kCeilDiv<Spec::block_size / 8, kScoreWarpsN>;

// d_q: warps split the heads first, then the columns.
constexpr int kDqWarpsM = kSmaller<Spec::block_h / 16, kWarps / 4>;
constexpr int kDqWarpsN = kWarps / kDqWarpsM;
constexpr int kDqTilesM = Spec::block_h / 16 / kDqWarpsM;
constexpr int kDqChunks = kCeilDiv<kChunks, kDqWarpsN>;

// d_kv: warps split the kv rows first, then the columns.
constexpr int kDkvWarpsM = kSmaller<Spec::block_size / 16, kWarps / 4>;
constexpr int kDkvWarpsN = kWarps / kDkvWarpsM;
constexpr int kDkvTilesM = Spec::block_size / 16 / kDkvWarpsM;

// Byte offset of 16-byte chunk `chunk` of a row of P or dS. A row has block_size / 8 chunks; they are exchanged so that
// eight rows of one chunk fall on different banks.
PTX_FN u32 score_offset(int head, int chunk) {
  constexpr int kChunksARow = Spec::block_size / 8;                  // 2, 4 or 8
  constexpr int kRowsALine = kChunksARow < 8 ? 8 / kChunksARow : 1;  // rows in 128 bytes
  return (u32)(head * (Spec::block_size * 2) + ((chunk ^ ((head / kRowsALine) & (kChunksARow - 1))) << 4));
}

// Copies one head block of q or d_o; heads that do not exist become zeros.
template <int Panels>
PTX_FN void load_heads(u32 destination, const void* tensor, const Strides& strides, const Place& place) {
  const int lane8 = (int)threadIdx.x & 7;
  for (int head = (int)threadIdx.x / 8; head < Spec::block_h; head += Spec::threads / 8) {
    const bool exists = head < place.heads;
    const u16* source = (const u16*)tensor +
                        offset_of(strides, place.b, place.s, place.first_head + (exists ? head : 0)) + lane8 * 8;
    const u32 target = destination + panel_offset<Spec::block_h>(head, lane8);
#pragma unroll
    for (int panel = 0; panel < Panels; ++panel) {
      cp_async_16_zfill(target + panel * (Spec::block_h * 128), source + panel * 64, exists ? 16 : 0);
    }
  }
}

// Where a CTA reads: its list, and the kv rows of its batch entry and group.
struct Source {
  const int* list;
  int length;
  u32 limit;
  const u16* kv;
  long long row_stride;  // elements

  PTX_FN int row(int position) const {
    return row_at(list, position, length, limit);
  }
};

// Starts the copies of tile `tile`. Eight threads take a row, 16 bytes of a panel each.
PTX_FN void gather_tile(u32 shared, const Source& source, int tile) {
  constexpr int kGroups = Spec::threads / 8;                                             // rows under way at a time
  constexpr int kPanelStep = kGroups > Spec::block_size ? kGroups / Spec::block_size : 1;  // groups that share a row
  const int lane8 = (int)threadIdx.x & 7, group = (int)threadIdx.x / 8;
  const u32 stage = shared + Shared::kv + (u32)(tile % Spec::stages) * Shared::kv_stage;
#pragma unroll
  for (int r = group % Spec::block_size; r < Spec::block_size; r += kGroups) {
    const int row = source.row(tile * Spec::block_size + r);
    const u16* from = source.kv + (row < 0 ? 0 : row) * source.row_stride + lane8 * 8;
    const u32 target = stage + panel_offset<Spec::block_size>(r, lane8);
#pragma unroll
    for (int panel = 0; panel < kQkPanels; panel += kPanelStep) {
      const int mine = panel + group / Spec::block_size;  // of the groups that share the row
      if (kPanelStep == 1 || mine < kQkPanels) {
        cp_async_16_zfill(target + mine * (Spec::block_size * 128), from + mine * 64, row < 0 ? 0 : 16);
      }
    }
  }
  cp_async_commit_group();
}

// Per-head values of a thread's two rows of a 16-row score tile.
struct HeadValues {
  float lse[2];
  float delta[2];
};

PTX_FN HeadValues load_head_values(const Arguments& args, const Place& place, int first_row) {
  HeadValues values;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int head = first_row + 8 * i;
    const bool exists = head < place.heads;
    const long long row = (place.b * args.queries + place.s) * Spec::heads + place.first_head + head;
    values.lse[i] = exists ? ld_global_nc_f32(args.row_lse + row) : infinity();  // exp2(-inf): P = 0
    values.delta[i] = exists ? ld_global_nc_f32(args.row_delta + row) : 0.0f;
  }
  return values;
}

// S, dP, P and dS of one tile; P and dS go to shared memory.
PTX_FN void score_tile(const Arguments& args, u32 shared, const Source& source, int tile, const HeadValues& head) {
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
  const int m0 = warp / kScoreWarpsN * 16, n0 = warp % kScoreWarpsN * (kScoreTiles * 8);
  if (n0 >= Spec::block_size) return;

  const u32 stage = shared + Shared::kv + (u32)(tile % Spec::stages) * Shared::kv_stage;
  const u32 q = shared + Shared::q, d_o = shared + Shared::d_o;
  float s[kScoreTiles][4] = {}, dp[kScoreTiles][4] = {};
#pragma unroll 1
  for (int panel = 0; panel < kQkPanels; ++panel) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // 32 columns
      const int chunk = panel * 8 + half * 4;
      u32 k[kScoreTiles][4];
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
        ldmatrix_x4(k[n], stage + panel_offset<Spec::block_size>(n0 + n * 8 + (lane & 7), chunk + (lane >> 3)));
      }
      u32 a[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        ldmatrix_x4(a[i], q + panel_offset<Spec::block_h>(m0 + (lane & 15), chunk + i * 2 + (lane >> 4)));
      }
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
        mma_m16n8k16(s[n], a[0], k[n][0], k[n][1]);
        mma_m16n8k16(s[n], a[1], k[n][2], k[n][3]);
      }
      if (panel < kVPanels) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          ldmatrix_x4(a[i], d_o + panel_offset<Spec::block_h>(m0 + (lane & 15), chunk + i * 2 + (lane >> 4)));
        }
#pragma unroll
        for (int n = 0; n < kScoreTiles; ++n) {
          mma_m16n8k16(dp[n], a[0], k[n][0], k[n][1]);
          mma_m16n8k16(dp[n], a[1], k[n][2], k[n][3]);
        }
      }
    }
  }

#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) {
    const int column = n0 + n * 8 + (lane & 3) * 2;
    const bool counts[2] = {source.row(tile * Spec::block_size + column) >= 0,
                            source.row(tile * Spec::block_size + column + 1) >= 0};
#pragma unroll
    for (int i = 0; i < 2; ++i) {  // the thread's two heads
      float p[2], ds[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float e = ex2_approx_ftz(fmaf(s[n][i * 2 + j], args.scale_log2, -head.lse[i]));
        p[j] = counts[j] ? e : 0.0f;
        ds[j] = p[j] * (dp[n][i * 2 + j] - head.delta[i]) * args.scale;
      }
      const u32 offset = score_offset(m0 + (lane >> 2) + 8 * i, column / 8) + (u32)(column % 8) * 2;
      st_shared_u32(shared + Shared::p + offset, pack(p[0], p[1]));
      st_shared_u32(shared + Shared::ds + offset, pack(ds[0], ds[1]));
    }
  }
}

// d_q += dS k, kept in registers: [chunk of 16 columns][16 heads][two 8-column tiles].
using DqAccumulators = float[kDqChunks][kDqTilesM][2][4];

PTX_FN void add_d_q(DqAccumulators& d_q, u32 shared, int tile) {
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
  const int m0 = warp / kDqWarpsN * (kDqTilesM * 16), chunk0 = warp % kDqWarpsN;
  const u32 stage = shared + Shared::kv + (u32)(tile % Spec::stages) * Shared::kv_stage;
#pragma unroll
  for (int k0 = 0; k0 < Spec::block_size; k0 += 16) {
    u32 ds[kDqTilesM][4];
#pragma unroll
    for (int m = 0; m < kDqTilesM; ++m) {
      ldmatrix_x4(ds[m], shared + Shared::ds + score_offset(m0 + m * 16 + (lane & 15), k0 / 8 + (lane >> 4)));
    }
#pragma unroll
    for (int i = 0; i < kDqChunks; ++i) {
      const int chunk = chunk0 + i * kDqWarpsN;
      if (kChunks % kDqWarpsN != 0 && chunk >= kChunks) continue;
      u32 k[4];
      ldmatrix_x4_trans(k, stage + panel_offset<Spec::block_size>(k0 + (lane & 15), chunk * 2 + (lane >> 4)));
#pragma unroll
      for (int m = 0; m < kDqTilesM; ++m) {
        mma_m16n8k16(d_q[i][m][0], ds[m], k[0], k[1]);
        mma_m16n8k16(d_q[i][m][1], ds[m], k[2], k[3]);
      }
    }
  }
}

// d_kv of the tile's rows: dS^T q, and in the value columns + P^T d_o, reduced into d_kv_sum.
PTX_FN void reduce_d_kv(u32 shared, const Source& source, int tile, const char* sums) {
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
  const int chunk0 = warp % kDkvWarpsN;
#pragma unroll
  for (int m = 0; m < kDkvTilesM; ++m) {
    const int m0 = (warp / kDkvWarpsN * kDkvTilesM + m) * 16;
    // dS^T and P^T: rows are kv rows, the sum runs over heads.
    u32 ds[Spec::block_h / 16][4], p[Spec::block_h / 16][4];
#pragma unroll
    for (int k = 0; k < Spec::block_h / 16; ++k) {
      const u32 offset = score_offset(k * 16 + (lane & 7) + ((lane >> 4) << 3), m0 / 8 + ((lane >> 3) & 1));
      ldmatrix_x4_trans(ds[k], shared + Shared::ds + offset);
      ldmatrix_x4_trans(p[k], shared + Shared::p + offset);
    }
    const int position = tile * Spec::block_size + m0 + (lane >> 2);
    const WarpRows rows = warp_rows(sums, source.row(position), source.row(position + 8), lane);

#pragma unroll 1
    for (int chunk = chunk0; chunk < kChunks; chunk += kDkvWarpsN) {
      float d_kv[2][4] = {};
#pragma unroll
      for (int k = 0; k < Spec::block_h / 16; ++k) {
        const u32 offset = panel_offset<Spec::block_h>(k * 16 + (lane & 15), chunk * 2 + (lane >> 4));
        u32 b[4];
        ldmatrix_x4_trans(b, shared + Shared::q + offset);
        mma_m16n8k16(d_kv[0], ds[k], b[0], b[1]);
        mma_m16n8k16(d_kv[1], ds[k], b[2], b[3]);
        if (chunk < kValueChunks) {
          ldmatrix_x4_trans(b, shared + Shared::d_o + offset);
          mma_m16n8k16(d_kv[0], p[k], b[0], b[1]);
          mma_m16n8k16(d_kv[1], p[k], b[2], b[3]);
        }
      }
      add_columns(rows, chunk * 16, d_kv);
    }
  }
}

// d_q leaves through q's place in shared memory, so that a row goes out in 16-byte pieces side by side.
PTX_FN void store_d_q(const Arguments& args, const Place& place, u32 shared, const DqAccumulators& d_q) {
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x & 31;
  const int m0 = warp / kDqWarpsN * (kDqTilesM * 16), chunk0 = warp % kDqWarpsN;
#pragma unroll
  for (int i = 0; i < kDqChunks; ++i) {
    const int chunk = chunk0 + i * kDqWarpsN;
    if (kChunks % kDqWarpsN != 0 && chunk >= kChunks) continue;
#pragma unroll
    for (int m = 0; m < kDqTilesM; ++m) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const u32 offset = panel_offset<Spec::block_h>(m0 + m * 16 + (lane >> 2) + half * 8, chunk * 2 + n);
          st_shared_u32(shared + Shared::q + offset + (u32)(lane & 3) * 4,
                        pack(d_q[i][m][n][half * 2], d_q[i][m][n][half * 2 + 1]));
        }
      }
    }
  }
  __syncthreads();
  const int lane8 = (int)threadIdx.x & 7;
  for (int head = (int)threadIdx.x / 8; head < place.heads; head += Spec::threads / 8) {
    u16* out = (u16*)args.d_q + offset_of(args.d_q_strides, place.b, place.s, place.first_head + head) + lane8 * 8;
#pragma unroll
    for (int panel = 0; panel < kQkPanels; ++panel) {
      u32 r[4];
      ld_shared_v4_u32(r, shared + Shared::q + panel_offset<Spec::block_h>(head, panel * 8 + lane8));
      st_global_cs_v4_u32(out + panel * 64, r[0], r[1], r[2], r[3]);
    }
  }
}

PTX_FN void backward(const Arguments& args) {
  if (!is_wanted(args)) return;
  PTX_DYNAMIC_SHARED(shared_bytes);
  const u32 shared = shared_address(shared_bytes);
  const Place place = place_of(args, blockIdx.x);
  const Source source = {list_of(args, place), (int)ld_global_nc_u32(args.list_length + place.list),
                         key_limit(args, place.s),
                         (const u16*)args.kv + offset_of(args.kv_strides, place.b, 0, place.group), args.kv_strides.token};
  const char* sums = sums_of(args, place.b, place.group);
  const int tiles = (source.length + Spec::block_size - 1) / Spec::block_size;

  load_heads<kQkPanels>(shared + Shared::q, args.q, args.q_strides, place);
  load_heads<kVPanels>(shared + Shared::d_o, args.d_o, args.d_o_strides, place);
  cp_async_commit_group();

  constexpr int kAhead = Spec::stages > 1 ? Spec::stages - 1 : 1;  // tiles under way when a step begins
#pragma unroll
  for (int tile = 0; tile < kAhead; ++tile) {
    if (tile < tiles) {
      gather_tile(shared, source, tile);
    } else {
      cp_async_commit_group();  // groups are counted, also empty ones
    }
  }

  const int score_row = (int)threadIdx.x / 32 / kScoreWarpsN * 16 + (((int)threadIdx.x & 31) >> 2);
  const HeadValues head = load_head_values(args, place, score_row);
  DqAccumulators d_q = {};

#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait_group<kAhead - 1>();
    __syncthreads();  // the tile has landed for all; the previous one, its P and dS have been used by all
    if (Spec::stages > 1) {
      if (tile + kAhead < tiles) {
        gather_tile(shared, source, tile + kAhead);
      } else {
        cp_async_commit_group();
      }
    }
    score_tile(args, shared, source, tile, head);
    __syncthreads();  // P and dS are written
    add_d_q(d_q, shared, tile);
    reduce_d_kv(shared, source, tile, sums);
    if (Spec::stages == 1) {
      __syncthreads();  // the only buffer is free
      if (tile + 1 < tiles) gather_tile(shared, source, tile + 1);
    }
  }
  cp_async_wait_group<0>();
  __syncthreads();  // q has landed or been read by all: its place is free for d_q
  store_d_q(args, place, shared, d_q);
}

// Every list of this schedule has one CTA: postprocess finds no shares to add up.
PTX_FN void fold_shares(const Arguments&, int, int) {}
