// The forward that goes with the backward: o and lse of every token, for smla-bench, whose inputs would
// otherwise cost minutes on the CPU. Written to be read, not to be fast (fp32 on the CUDA cores).
//
// One CTA: one token and 16 heads of one kv group, 256 threads. 32 listed rows a step:
//   scores   warp w has heads 2w and 2w + 1, lane l has row l of the step
//   softmax  online: running maximum and denominator of each head, kept by its warp
//   output   thread t has columns 2t and 2t + 1 of all 16 heads, 32 sums in registers
//
// `Shape` (its constants) stands in front of this text.

struct ForwardArguments {
  const unsigned short* q;   // [B, S, H, d_qk]
  const unsigned short* kv;  // [B, S_kv, G, d_qk]
  const int* indices;        // [B, S, G, topk]
  const int* topk_length;    // [B, S, G], or [B, S]
  const float* attn_sink;    // [H]
  unsigned short* o;         // [B, S, H, d_v]
  float* lse;                // [B, S, H]
  long long query_offset;
  int queries;
  int keys;
  int topk;
  int length_per_group;
  float scale;
};

constexpr int kHeads = 16;  // a CTA
constexpr int kRows = 32;   // a step: one a lane
constexpr int kThreads = 256;
constexpr int kColumns = Shape::d_qk;
constexpr int kRowPitch =
    kColumns + 2;  // 16-bit values: an odd number of words, so that 32 rows hit 32 banks

struct ForwardShared {
  float q[kHeads][kColumns];
  unsigned short rows[kRows][kRowPitch];
  float p[kRows][kHeads];
  float rescale[kHeads];      // of what was summed before this step
  float denominator[kHeads];  // at the end
  int row_index[kRows];       // -1: an entry that does not count
};

__device__ inline float widen(unsigned int bits) {
  if (Shape::bf16) return __uint_as_float(bits << 16);
  // fp16: the exponent's bias differs by 112; the product is exact, also for subnormals.
  const float magnitude = __uint_as_float((bits & 0x7fffu) << 13) * 0x1p112f;
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

// To nearest, ties to even. The outputs here are averages of rows, so they are finite and in range.
__device__ inline unsigned short narrow(float value) {
  const unsigned int bits = __float_as_uint(value);
  if (Shape::bf16) return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  const unsigned int sign = (bits >> 16) & 0x8000u;
  const unsigned int magnitude = bits & 0x7fffffffu;
  if (magnitude < 0x38800000u) {  // below 2^-14: the last bit of 0.5f is that of fp16's subnormals
    return static_cast<unsigned short>(sign |
                                       (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u));
  }
  const unsigned int rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<unsigned short>(sign | ((rounded >> 13) - (112u << 10)));
}

__device__ inline float warp_maximum(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

__device__ inline float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    smla_forward(const __grid_constant__ ForwardArguments a) {
  extern __shared__ __align__(16) char shared_bytes[];
  ForwardShared& shared = *reinterpret_cast<ForwardShared*>(shared_bytes);
  constexpr int kHeadsPerGroup = Shape::heads / Shape::kv_groups;
  constexpr int kHeadBlocks = (kHeadsPerGroup + kHeads - 1) / kHeads;
  const float minus_infinity = __uint_as_float(0xff800000u);

  const int head_block = static_cast<int>(blockIdx.x % kHeadBlocks);
  const int group = static_cast<int>(blockIdx.x / kHeadBlocks % Shape::kv_groups);
  const long long token = blockIdx.x / kHeadBlocks / Shape::kv_groups;  // b * S + s
  const long long batch = token / a.queries;
  const long long last_row = token % a.queries + a.query_offset;  // for the causal test
  const int first_head = group * kHeadsPerGroup + head_block * kHeads;
  const int heads_here = min(kHeads, kHeadsPerGroup - head_block * kHeads);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;

  const unsigned short* q = a.q + (token * Shape::heads + first_head) * kColumns;
  for (int i = thread; i < kHeads * kColumns; i += kThreads) {
    shared.q[i / kColumns][i % kColumns] = i < heads_here * kColumns ? widen(q[i]) * a.scale : 0.0f;
  }
  const int* list = a.indices + (token * Shape::kv_groups + group) * a.topk;
  int length = a.topk;
  if (Shape::has_topk_length) {
    const int given = a.topk_length[a.length_per_group ? token * Shape::kv_groups + group : token];
    length = min(max(given, 0), a.topk);
  }

  float maximum[2] = {minus_infinity, minus_infinity};  // of this warp's two heads
  float denominator[2] = {0.0f, 0.0f};
  float sums[kHeads][2] = {};

  for (int first = 0; first < length; first += kRows) {
    __syncthreads();  // the step before is done with rows and p
    if (thread < kRows) {
      const int index = first + thread < length ? list[first + thread] : -1;
      const bool counts = index >= 0 && index < a.keys && (!Shape::causal || index <= last_row);
      shared.row_index[thread] = counts ? index : -1;
    }
    __syncthreads();
    for (int i = thread; i < kRows * (kColumns / 2); i += kThreads) {
      const int row = i / (kColumns / 2), pair = i % (kColumns / 2);
      const int index = shared.row_index[row];
      unsigned int bits = 0;
      if (index >= 0) {
        const long long start = ((batch * a.keys + index) * Shape::kv_groups + group) * kColumns;
        bits = reinterpret_cast<const unsigned int*>(a.kv + start)[pair];
      }
      reinterpret_cast<unsigned int*>(shared.rows[row])[pair] = bits;
    }
    __syncthreads();

    const unsigned int* row = reinterpret_cast<const unsigned int*>(shared.rows[lane]);
    float score[2] = {0.0f, 0.0f};
    for (int pair = 0; pair < kColumns / 2; ++pair) {
      const float k0 = widen(row[pair] & 0xffffu), k1 = widen(row[pair] >> 16);
      for (int h = 0; h < 2; ++h) {
        const float* head = shared.q[2 * warp + h];
        score[h] += head[2 * pair] * k0 + head[2 * pair + 1] * k1;
      }
    }
    for (int h = 0; h < 2; ++h) {
      const float s = shared.row_index[lane] >= 0 ? score[h] : minus_infinity;
      const float new_maximum = fmaxf(maximum[h], warp_maximum(s));
      const float p = s == minus_infinity ? 0.0f : expf(s - new_maximum);
      const float rescale = maximum[h] == minus_infinity ? 0.0f : expf(maximum[h] - new_maximum);
      denominator[h] = denominator[h] * rescale + warp_sum(p);
      maximum[h] = new_maximum;
      shared.p[lane][2 * warp + h] = p;
      if (lane == 0) shared.rescale[2 * warp + h] = rescale;
    }
    __syncthreads();

#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      sums[h][0] *= shared.rescale[h];
      sums[h][1] *= shared.rescale[h];
    }
    for (int r = 0; r < kRows; ++r) {
      const unsigned int bits = reinterpret_cast<const unsigned int*>(shared.rows[r])[thread];
      const float v0 = widen(bits & 0xffffu), v1 = widen(bits >> 16);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        sums[h][0] += shared.p[r][h] * v0;
        sums[h][1] += shared.p[r][h] * v1;
      }
    }
  }

  if (lane < 2) {
    const int h = 2 * warp + lane;
    const float m = lane == 0 ? maximum[0] : maximum[1];
    const float d = lane == 0 ? denominator[0] : denominator[1];
    const float keys_only = d > 0.0f ? m + logf(d) : minus_infinity;  // natural logarithm of the denominator
    float with_sink = keys_only;
    if (Shape::has_sink && h < heads_here) {
      const float sink = a.attn_sink[first_head + h];
      const float larger = fmaxf(keys_only, sink);
      with_sink = larger + logf(expf(keys_only - larger) + expf(sink - larger));
    }
    // What the sums, which are relative to the maximum, are divided by; 0 where no entry counts.
    shared.denominator[h] = d > 0.0f ? expf(with_sink - m) : 0.0f;
    if (h < heads_here) {
      const float saved = Shape::lse_includes_sink ? with_sink : keys_only;
      a.lse[token * Shape::heads + first_head + h] = Shape::lse_base_2 ? saved * 1.4426950408889634f : saved;
    }
  }
  __syncthreads();
  unsigned short* o = a.o + (token * Shape::heads + first_head) * Shape::d_v;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h < heads_here) {
      const float d = shared.denominator[h];
      const unsigned int low = narrow(d > 0.0f ? sums[h][0] / d : 0.0f);
      const unsigned int high = narrow(d > 0.0f ? sums[h][1] / d : 0.0f);
      reinterpret_cast<unsigned int*>(o + h * Shape::d_v)[thread] = low | high << 16;
    }
  }
}
