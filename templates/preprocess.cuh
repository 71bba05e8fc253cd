// preprocess: everything that the backward wants to find ready.
//
//   d_kv_sum, counters   zeroed (the caller's workspace holds garbage)
//   list_length          entries of each list up to its last valid one: trailing padding costs nothing; 0 marks a dead
//                        row, one without any valid entry
//   row_lse              log2 of the softmax denominator, the sink in it; +inf for a dead row, so that exp2 gives 0
//   row_delta            sum over d_v of o * d_o in fp32; 0 for a dead row, whatever o and lse hold there. Not where the
//                        backward computes it from the d_o that it has loaded anyway (Spec::delta_in_backward)
//   list_bounds          what the token may add to d_kv, where sums are scaled (fixed_point.cuh, partial_sums.cuh)
//   row_norms            of the value rows, for partial sums
//
// A CTA takes one (token, kv group) at a time, its warps share the heads. o and d_o are read once: at 64 heads 128 KB a
// token, the only bytes that count.
#pragma once

constexpr int kPreprocessThreads = 256;

// Entries up to the last valid one. Looks back from the end, 256 entries a step, so a full list costs one step.
PTX_FN int length_of_list(const Arguments& args, long long b, long long s, int group, int lane) {
  constexpr int kEntriesALane = 8;
  const int* list = args.indices + offset_of(args.indices_strides, b, s, group);
  const u32 limit = key_limit(args, s);
  for (int end = given_length(args, b, s, group); end > 0; end -= 32 * kEntriesALane) {
    int last = 0;
#pragma unroll
    for (int i = 0; i < kEntriesALane; ++i) {
      const int position = end - 1 - i * 32 - lane;
      if (position >= 0 && ld_global_nc_u32(list + position) < limit) last = max(last, position + 1);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) last = max(last, __shfl_xor_sync(0xffffffffu, last, step));
    if (last > 0) return last;
  }
  return 0;
}

// log2(2^a + 2^b); either may be -inf.
PTX_FN float log2_add_exp2(float a, float b) {
  const float high = fmaxf(a, b);
  if (high == -infinity()) return high;
  return high + lg2_approx(1.0f + ex2_approx_ftz(fminf(a, b) - high));
}

// The row's denominator by the problem's convention, as log2, the sink in it.
PTX_FN float log2_denominator(const Arguments& args, long long b, long long s, int head) {
  float lse = ld_global_nc_f32(args.lse + offset_of(args.lse_strides, b, s, head));
  if (Spec::lse_is_base_e) lse *= kLog2E;
  if (Spec::has_sink && !Spec::lse_includes_sink) {
    lse = log2_add_exp2(lse, ld_global_nc_f32(args.attn_sink + head) * kLog2E);
  }
  return lse;
}

// delta of one head, in every lane. Each lane takes 2 x 8 of the 512 columns.
PTX_FN float delta_of_head(const Arguments& args, long long b, long long s, int head, int lane) {
  if (Spec::has_delta) return ld_global_nc_f32(args.delta + offset_of(args.delta_strides, b, s, head));
  const u16* o = (const u16*)args.o + offset_of(args.o_strides, b, s, head);
  const u16* d_o = (const u16*)args.d_o + offset_of(args.d_o_strides, b, s, head);
  float sum = 0.0f;
#pragma unroll
  for (int column = 0; column < Spec::d_v; column += 256) {
    u32 o_chunk[4], d_o_chunk[4];
    ld_global_nc_v4_u32(o_chunk, o + column + lane * 8);
    ld_global_nc_v4_u32(d_o_chunk, d_o + column + lane * 8);
    sum += dot_of_chunk(o_chunk, d_o_chunk);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

PTX_FN void zero_sums(const Arguments& args) {
  const long long chunks = args.zero_bytes / 16;
  const long long stride = (long long)gridDim.x * kPreprocessThreads;
  for (long long i = (long long)blockIdx.x * kPreprocessThreads + threadIdx.x; i < chunks; i += stride) {
    st_global_v4_u32((char*)args.zero_begin + i * 16, 0, 0, 0, 0);
  }
}

// The heads of one list, a run of them a warp: lane i keeps delta of the warp's i-th head, so that every load is under
// way before the list's length is needed, and the results leave side by side.
PTX_FN void preprocess_list(const Arguments& args, long long list, int warp, int lane) {
  constexpr int kWarps = kPreprocessThreads / 32;
  constexpr int kRun = (Spec::heads_per_group + kWarps - 1) / kWarps;  // heads a warp
  const int group = (int)(list % Spec::kv_groups);
  const long long token = list / Spec::kv_groups;
  const long long b = token / args.queries, s = token % args.queries;
  const int end = min((warp + 1) * kRun, Spec::heads_per_group);
  int length = -1;
  ListBound bound;
  for (int first = warp * kRun; first < end; first += 32) {
    const int heads = min(32, end - first);
    float delta = 0.0f;
#pragma unroll 2
    for (int i = 0; i < heads && !Spec::delta_in_backward; ++i) {
      const float sum = delta_of_head(args, b, s, group * Spec::heads_per_group + first + i, lane);
      if (lane == i) delta = sum;
    }
    for (int i = 0; i < heads && kBounded; ++i) {
      widen_bound(bound, args, b, s, group * Spec::heads_per_group + first + i, lane);
    }
    widen_bound(bound, delta);
    if (length < 0) length = length_of_list(args, b, s, group, lane);
    if (lane < heads) {
      const int head = group * Spec::heads_per_group + first + lane;
      const bool dead = length == 0;
      st_global_f32(args.row_lse + token * Spec::heads + head, dead ? infinity() : log2_denominator(args, b, s, head));
      if (!Spec::delta_in_backward) st_global_f32(args.row_delta + token * Spec::heads + head, dead ? 0.0f : delta);
    }
  }
  if (warp == 0 && lane == 0) st_global_u32(args.list_length + list, (u32)length);
  store_bound(bound, args, list, warp, end - warp * kRun, length == 0, lane);
}

PTX_FN void preprocess(const Arguments& args) {
  if (!is_wanted(args)) return;
  zero_sums(args);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  store_row_norms(args, warp, lane);
  const long long lists = (long long)args.batch * args.queries * Spec::kv_groups;
  for (long long list = blockIdx.x; list < lists; list += gridDim.x) preprocess_list(args, list, warp, lane);
}
