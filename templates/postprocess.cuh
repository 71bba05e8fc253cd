// postprocess: d_kv from its sums (columns put back in order, rounded once), d_q of lists that CTAs shared, and d_sink.
#pragma once

constexpr int kPostprocessThreads = 256;

// Each thread takes two pairs of columns, 8 apart.
PTX_FN void write_d_kv(const Arguments& args) {
  constexpr int kQuads = Spec::d_qk / 4;  // a row
  const long long quads = (long long)args.batch * Spec::kv_groups * args.keys * kQuads;
  const long long stride = (long long)gridDim.x * kPostprocessThreads;
  FoldReport report;
  for (long long i = (long long)blockIdx.x * kPostprocessThreads + threadIdx.x; i < quads; i += stride) {
    const long long row = i / kQuads;
    const int quad = (int)(i % kQuads), column = (quad >> 2) * 16 + (quad & 3) * 2;
    const long long b = row / ((long long)Spec::kv_groups * args.keys);
    const int group = (int)(row / args.keys % Spec::kv_groups);
    const long long out = offset_of(args.d_kv_strides, b, row % args.keys, group) + column;
    float sum[4];
    load_quad(sum, args, b, group, row % args.keys, quad);
    note(report, sum);
    if (Spec::d_kv_is_fp32) {
      float* d_kv = (float*)args.d_kv + out;
      st_global_v2_u32(d_kv, __float_as_uint(sum[0]), __float_as_uint(sum[1]));
      st_global_v2_u32(d_kv + 8, __float_as_uint(sum[2]), __float_as_uint(sum[3]));
    } else {
      u16* d_kv = (u16*)args.d_kv + out;
      st_global_u32(d_kv, pack(sum[0], sum[1]));
      st_global_u32(d_kv + 8, pack(sum[2], sum[3]));
    }
  }
  store_report(report, args);
}

// d_sink[h] = - sum over tokens of exp(sink - L) * delta. A CTA takes a head at a time; the order of the sum depends on
// nothing but the number of tokens. Dead rows have L = +inf and delta = 0.
PTX_FN void write_d_sink(const Arguments& args) {
  PTX_STATIC_SHARED(partial_sums, kPostprocessThreads * 4);
  const u32 slots = shared_address(partial_sums);
  const int t = (int)threadIdx.x;
  const long long tokens = (long long)args.batch * args.queries;
  for (int head = (int)blockIdx.x; head < Spec::heads; head += (int)gridDim.x) {
    const float sink = ld_global_nc_f32(args.attn_sink + head) * kLog2E;
    float sum = 0.0f;
    for (long long token = t; token < tokens; token += kPostprocessThreads) {
      const long long row = token * Spec::heads + head;
      sum += ex2_approx_ftz(sink - ld_global_nc_f32(args.row_lse + row)) * ld_global_nc_f32(args.row_delta + row);
    }
    st_shared_u32(slots + t * 4, __float_as_uint(sum));
    for (int half = kPostprocessThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (t < half) {
        sum += __uint_as_float(ld_shared_u32(slots + (t + half) * 4));
        st_shared_u32(slots + t * 4, __float_as_uint(sum));
      }
    }
    if (t == 0) st_global_f32(args.d_sink + head, -sum);
    __syncthreads();  // the slots are free for the next head
  }
}

PTX_FN void postprocess(const Arguments& args) {
  if (!is_wanted(args)) return;
  fold_shares(args, (int)blockIdx.x * kPostprocessThreads + (int)threadIdx.x, (int)gridDim.x * kPostprocessThreads);
  write_d_kv(args);
  if (Spec::has_sink) write_d_sink(args);
}
