// What a GPU can do of each thing that the backward is made of, alone and with another: reductions into random rows of
// sums, copies of random kv rows, wgmma. smla-bench --limits times these kernels; nothing of them is in a call.
//
// One CTA an SM. A tile is 64 listed rows of 576 columns: what a CTA of the backward gathers and reduces a step. The
// reductions have the shapes of the schedule wgmma's, and eight warps issue them as its two warpgroups do:
//
//   fp32       red.v4.f32, 4 rows x 128 bytes an instruction
//   fp16       red.v4.f16x2, 8 rows x 64 bytes
//   integers   red.u64, 2 rows x 128 bytes
//
// What is added comes from memory, and what wgmma computes goes there, or ptxas would delete the work. Reductions are
// asynchronous: a kernel has ended when all of them have been done.

struct LimitsArguments {
  char* sums;           // rows of the kernel's kind, all of them zero or small
  const char* kv;       // rows of 576 16-bit values
  const int* list;      // 64 rows a tile, `tiles` tiles a CTA
  const u32* operands;  // kOperandBytes of 16-bit values
  float* out;           // a float a thread of the matrix kernels
  int tiles;
};

constexpr int kTileRows = 64, kColumns = 576;
constexpr int kReduceThreads = 256, kGatherThreads = 128;
constexpr int kPanelBytes = 64 * 128;  // 64 rows x 64 columns
constexpr int kTileBytes = kColumns / 64 * kPanelBytes;
constexpr int kOperandBytes = 128 * 1024;

PTX_FN const int* list_of_tile(const LimitsArguments& args, int tile) {
  return args.list + ((long long)ctaid_x() * args.tiles + tile) * kTileRows;
}

// ---- reductions ----

// How the lanes of a warp share rows, and what a row holds.
struct Fp32Sums {
  static constexpr int row_bytes = kColumns * 4, used_bytes = row_bytes, lanes_a_row = 8, bytes_a_lane = 16;
};
struct Fp16Sums {
  static constexpr int row_bytes = kColumns * 2, used_bytes = row_bytes, lanes_a_row = 4, bytes_a_lane = 16;
};
struct IntegerSums {  // 32 words behind the columns, as in fixed_point.cuh
  static constexpr int row_bytes = (kColumns + 32) * 8, used_bytes = kColumns * 8, lanes_a_row = 16, bytes_a_lane = 8;
};

PTX_FN void add(Fp32Sums, char* place, u32 bits) {
  const float x = __uint_as_float(bits);
  red_add_v4_f32((float*)place, x, x, x, x);
}
PTX_FN void add(Fp16Sums, char* place, u32 bits) {
  red_add_noftz_v4_f16x2_below<1>(0, place, bits, bits, bits, bits);
}
PTX_FN void add(IntegerSums, char* place, u32 bits) { red_add_u64_below<1, 0>(0, place, bits); }

// 0.001 as a float, as two fp16, as an integer: sums of thousands stay finite.
PTX_FN u32 addend(Fp32Sums) { return 0x3a83126fu; }
PTX_FN u32 addend(Fp16Sums) { return 0x14191419u; }
PTX_FN u32 addend(IntegerSums) { return 0x3a83126fu; }

// Rows of a tile that one thread adds to.
template <class Sums>
struct Rows {
  static constexpr int at_once = 32 / Sums::lanes_a_row;  // of a warp
  static constexpr int count = kTileRows / (kReduceThreads / 32 * at_once);
  int row[count];
};

template <class Sums>
PTX_FN void load_rows(Rows<Sums>& rows, const LimitsArguments& args, int tile, int warp, int lane) {
#pragma unroll
  for (int i = 0; i < Rows<Sums>::count; ++i) {
    const int place = (i * (kReduceThreads / 32) + warp) * Rows<Sums>::at_once + lane / Sums::lanes_a_row;
    rows.row[i] = (int)ld_global_nc_u32(list_of_tile(args, tile) + place);
  }
}

template <class Sums>
PTX_FN void reduce_rows(const Rows<Sums>& rows, const LimitsArguments& args, int lane) {
  constexpr int kStep = Sums::lanes_a_row * Sums::bytes_a_lane;  // bytes of a row an instruction
#pragma unroll
  for (int i = 0; i < Rows<Sums>::count; ++i) {
    char* place = args.sums + (long long)rows.row[i] * Sums::row_bytes + lane % Sums::lanes_a_row * Sums::bytes_a_lane;
#pragma unroll
    for (int offset = 0; offset < Sums::used_bytes; offset += kStep) add(Sums{}, place + offset, addend(Sums{}));
  }
}

// The rows of the next tile are asked for before the reductions of this one, behind which a load would queue. Together
// with a gather, all warps meet once a tile.
template <class Sums, bool Together>
PTX_FN void reduce_role(const LimitsArguments& args) {
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  Rows<Sums> rows, next;
  load_rows(rows, args, 0, warp, lane);
#pragma unroll 1
  for (int tile = 0; tile < args.tiles; ++tile) {
    load_rows(next, args, min(tile + 1, args.tiles - 1), warp, lane);
    reduce_rows(rows, args, lane);
    rows = next;
    if (Together) bar_sync(1, kReduceThreads + kGatherThreads);
  }
}

// ---- gather: cp.async of 16 bytes, eight lanes a row, into two buffers of a tile ----

template <bool Together>
PTX_FN void gather_role(const LimitsArguments& args, u32 buffers, int thread) {
  const int row0 = thread / 8, lane8 = thread % 8;  // rows row0, row0 + 16, ...
  const auto row = [&](int tile, int i) { return (int)ld_global_nc_u32(list_of_tile(args, tile) + row0 + i * 16); };
  int rows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) rows[i] = row(0, i);
#pragma unroll 1
  for (int tile = 0; tile < args.tiles; ++tile) {
    const u32 target = buffers + (u32)(tile & 1) * kTileBytes + panel_offset<kTileRows>(row0, lane8);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const char* source = args.kv + (long long)rows[i] * (kColumns * 2) + lane8 * 16;
#pragma unroll
      for (int panel = 0; panel < kColumns / 64; ++panel) {
        cp_async_16(target + i * (16 * 128) + panel * kPanelBytes, source + panel * 128);
      }
    }
    cp_async_commit_group();
#pragma unroll
    for (int i = 0; i < 4; ++i) rows[i] = row(min(tile + 1, args.tiles - 1), i);
    cp_async_wait_group<1>();  // the other buffer has landed and may be filled again
    if (Together) bar_sync(1, kReduceThreads + kGatherThreads);
  }
  cp_async_wait_group<0>();
}

template <class Sums>
PTX_FN void reduce(const LimitsArguments& args) {
  reduce_role<Sums, false>(args);
}

PTX_FN void gather(const LimitsArguments& args) {
  PTX_DYNAMIC_SHARED(buffers);
  gather_role<false>(args, shared_address(buffers), (int)threadIdx.x);
}

template <class Sums>
PTX_FN void gather_and_reduce(const LimitsArguments& args) {
  PTX_DYNAMIC_SHARED(buffers);
  if (threadIdx.x < kReduceThreads) {
    reduce_role<Sums, true>(args);
  } else {
    gather_role<true>(args, shared_address(buffers), (int)threadIdx.x - kReduceThreads);
  }
}

// ---- wgmma: two warpgroups, each with two accumulators in turn, as the schedule keeps one run under the next ----

constexpr int kMatrixThreads = 256;
constexpr int kWgmmasARun = 8;  // two runs a step and warpgroup

PTX_FN u32 load_operands(const LimitsArguments& args, u32 base) {
  for (int i = (int)threadIdx.x * 4; i < kOperandBytes; i += kMatrixThreads * 4) {
    st_shared_u32(base + i, ld_global_nc_u32((const char*)args.operands + i));
  }
  fence_proxy_async();
  __syncthreads();
  return base;
}

template <int Size>
PTX_FN void store_sum(const LimitsArguments& args, const float (&first)[Size], const float (&second)[Size]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < Size; ++i) sum += first[i] + second[i];
  st_global_f32(args.out + (long long)ctaid_x() * kMatrixThreads + threadIdx.x, sum);
}

// Eight panels of 64 rows x 64 columns for A, and as many for B. Steps walk through both.
PTX_FN u32 panel_of(u32 base, int half, int panel) { return base + (u32)(half * 8 + panel % 8) * kPanelBytes; }

// 64 x 64 x 16, both operands in shared memory: S and dP.
PTX_FN void matrices_ss(const LimitsArguments& args) {
  PTX_DYNAMIC_SHARED(bytes);
  const u32 base = load_operands(args, shared_address(bytes));
  const int warpgroup = (int)threadIdx.x / 128;
  float first[32] = {}, second[32] = {};
  const auto run = [&](float (&d)[32], int panel) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kWgmmasARun; ++k) {
      wgmma_n64_ss<0, 0>(d, k_major(panel_of(base, 0, panel + warpgroup + k / 4) + k % 4 * 32),
                         k_major(panel_of(base, 1, panel + k / 4) + k % 4 * 32), 1);
    }
    wgmma_commit_group();
    wgmma_wait_group<1>();
  };
#pragma unroll 1
  for (int step = 0; step < args.tiles; ++step) {
    run(first, step * 2);
    run(second, step * 2 + 3);
  }
  wgmma_wait_group<0>();
  store_sum(args, first, second);
}

// 64 x 32 x 16, A in registers: d_kv.
PTX_FN void matrices_rs(const LimitsArguments& args) {
  PTX_DYNAMIC_SHARED(bytes);
  const u32 base = load_operands(args, shared_address(bytes));
  u32 a[4][4];
#pragma unroll
  for (int i = 0; i < 16; ++i) a[i / 4][i % 4] = ld_global_nc_u32(args.operands + (int)threadIdx.x * 16 + i);
  float first[16] = {}, second[16] = {};
  const auto run = [&](float (&d)[16], int panel) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kWgmmasARun; ++k) {
      wgmma_n32_rs<1>(d, a[k % 4], mn_major(panel_of(base, k / 4, panel) + k % 4 * 2048), 1);
    }
    wgmma_commit_group();
    wgmma_wait_group<1>();
  };
#pragma unroll 1
  for (int step = 0; step < args.tiles; ++step) {
    run(first, step * 2);
    run(second, step * 2 + 3);
  }
  wgmma_wait_group<0>();
  store_sum(args, first, second);
}
