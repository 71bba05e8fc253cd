// Schedules wgmma and wgmma_pair: which block a CTA works on, and with which part of its list.
//
// A device runs args.ctas_in_flight CTAs at once. The blocks beyond the last whole wave of them would leave most SMs
// idle, so args.shares CTAs work on each of those, every one on its part of the list (src/plan/split.h has the rule):
//
//   CTA      0 .. whole_ctas - 1    whole_ctas + i
//   block    the CTA's number       whole_ctas + i / shares
//   tiles    all of its list        of ceil(tiles / shares) the (i % shares)-th; the last shares may have fewer or none
//   d_q      rows of d_q            the accumulators, in fp32, to the i-th piece of d_q_shares
//
// With clusters a cluster takes the place of the CTA: those of one share have the same part of the same list, each with
// its own heads.
//
// The shares of a list reduce into d_kv_sum like any CTAs. postprocess adds up their d_q in the order of the shares, so
// it repeats bit for bit on a device; how many there are depends on its SMs, so no deterministic problem is split.
#pragma once

constexpr bool kSplits = !Spec::deterministic;

PTX_FN int block_length(const Arguments& args, const Place& place) {
  return (int)ld_global_nc_u32(args.block_length + place.list);
}
PTX_FN int tiles_of(int length) { return (length + 63) / 64; }
PTX_FN int tiles_a_share(const Arguments& args, int tiles) { return (tiles + args.shares - 1) / args.shares; }

// Whether this CTA shares its list; if so, which of the split blocks it works on, with which share of the list.
PTX_FN bool is_share(const Arguments& args) { return kSplits && ctaid_x() >= (u32)args.whole_ctas; }
PTX_FN u32 split_block(const Arguments& args) {
  constexpr u32 kCtas = Spec::cluster_ctas;
  const u32 i = ctaid_x() - (u32)args.whole_ctas;
  return i / kCtas / (u32)args.shares * kCtas + i % kCtas;
}
PTX_FN u32 share_of_list(const Arguments& args) {
  return (ctaid_x() - (u32)args.whole_ctas) / (u32)Spec::cluster_ctas % (u32)args.shares;
}

// Finds this CTA's block and its part of the list, and leaves them in shared memory: in registers they would stay over
// the loop over tiles. False: a share that its list is too short for. (The first one has work even where the list is
// empty: delta and d_q of dead rows.)
PTX_FN bool find_part(const Arguments& args) {
  u32 block = ctaid_x(), begin = 0, end = 0x7fffffffu;
  if (is_share(args)) {
    const u32 share = share_of_list(args);
    block = (u32)args.whole_ctas + split_block(args);
    const int tiles = tiles_of(block_length(args, place_of(args, block)));
    const u32 each = (u32)tiles_a_share(args, tiles);
    if (share > 0 && share * each >= (u32)tiles) return false;
    begin = share * each * 64;
    end = begin + each * 64;
  }
  if (tid_x() == 0) {
    st_shared_u32(own(Shared::block), block);
    st_shared_u32(own(Shared::part_begin), begin);
    st_shared_u32(own(Shared::part_end), end);
  }
  return true;
}

PTX_FN Place own_place(const Arguments& args) {
  return place_of(args, kSplits ? ld_shared_u32(own(Shared::block)) : ctaid_x());
}

// Where in its list this CTA's part begins and ends, in entries: 0 and the list's length without shares.
PTX_FN int own_begin() { return kSplits ? (int)ld_shared_u32(own(Shared::part_begin)) : 0; }
PTX_FN int own_end(const Arguments& args, const Place& place) {
  const u32 length = (u32)block_length(args, place);
  return (int)(kSplits ? min(length, ld_shared_u32(own(Shared::part_end))) : length);
}

// ---- d_q of the shares ----
//
// Four accumulators of thread t of its warpgroup (columns 2l, 2l + 1 of row r, the same of row r + 8; l = t % 4) are
// the quad 128 (column / 8) + t of a piece: a warp's store of 16 bytes a lane is one run of 512, as is a load of the
// fold.

constexpr int kShareQuads = 64 * Spec::d_qk / 4;

template <int Columns>
PTX_FN void store_share(const Arguments& args, int thread, int column, const float (&d)[Columns / 2]) {
  const long long piece = (long long)split_block(args) * args.shares + share_of_list(args);
  float* out = args.d_q_shares + (piece * kShareQuads + column / 8 * 128 + thread) * 4;
#pragma unroll
  for (int i = 0; i < Columns / 8; ++i) {
    st_global_v4_u32(out + i * 512, __float_as_uint(d[i * 4]), __float_as_uint(d[i * 4 + 1]),
                     __float_as_uint(d[i * 4 + 2]), __float_as_uint(d[i * 4 + 3]));
  }
}

// The quads first, first + stride ... of all split blocks, for postprocess: summed over the shares that had tiles, and
// rounded once. An empty list has zeros in share 0.
PTX_FN void fold_shares(const Arguments& args, int first, int stride) {
  for (int i = first; kSplits && i < args.split_blocks * kShareQuads; i += stride) {
    const int block = i / kShareQuads, quad = i % kShareQuads, thread = quad % 128, lane = thread % 32;
    const Place place = place_of(args, (u32)(args.whole_ctas + block));
    const int tiles = tiles_of(block_length(args, place)), each = max(tiles_a_share(args, tiles), 1);
    const int shares = max((tiles + each - 1) / each, 1);
    const float* share = args.d_q_shares + ((long long)block * args.shares * kShareQuads + quad) * 4;
    float sum[4] = {};
#pragma unroll 8
    for (int s = 0; s < shares; ++s) {
      u32 d[4];
      ld_global_nc_v4_u32(d, share + (long long)s * (kShareQuads * 4));
#pragma unroll
      for (int k = 0; k < 4; ++k) sum[k] += __uint_as_float(d[k]);
    }
    const float unscale = inverse_scale(args, place);
    const int column = quad / 128 * 8 + (lane & 3) * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const HeadRow row = head_row(args, place, thread / 32 * 16 + (lane >> 2) + half * 8);
      u16* out = (u16*)args.d_q + offset_of(args.d_q_strides, place.b, row.s, row.head) + column;
      if (row.exists) st_global_u32(out, pack(sum[half * 2] * unscale, sum[half * 2 + 1] * unscale));
    }
  }
}
