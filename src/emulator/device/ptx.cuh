// The twin of templates/ptx.cuh for a CPU: the same names and signatures, each of which calls the emulator, and the little
// of CUDA C++ that the templates use. It takes the place of the part "ptx.cuh" of a KernelSource; the rest of the text is
// what NVRTC compiles. device/calls.h stands in front of it.
#pragma once

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

static EmulatorCalls* emulator_calls;
extern "C" void smla_emulator_attach(EmulatorCalls* calls) { emulator_calls = calls; }

// ---- CUDA C++ ----

#define PTX_FN inline __attribute__((always_inline))
#define PTX_KERNEL(threads, ctas_an_sm) extern "C" void
#define PTX_KERNEL_CLUSTER(size, threads, ctas_an_sm) extern "C" void
#define PTX_PARAMETER const
#define PTX_DYNAMIC_SHARED(name) unsigned char* const name = (unsigned char*)emulator_calls->dynamic_shared()
#define PTX_STATIC_SHARED(name, bytes) \
  unsigned char* const name = (unsigned char*)emulator_calls->static_shared(__LINE__, bytes)

#define threadIdx (emulator_calls->thread->thread_index)
#define blockIdx (emulator_calls->thread->block_index)
#define blockDim (emulator_calls->block_dim)
#define gridDim (emulator_calls->grid_dim)
#define __trap() emulator_calls->trap()
#define __syncthreads() emulator_calls->bar(0, (int)emulator_calls->block_dim.x, 1)

PTX_FN void __syncwarp(u32 mask = ~0u) { emulator_calls->syncwarp(mask); }
PTX_FN u32 __float_as_uint(float value) {
  u32 bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}
PTX_FN float __uint_as_float(u32 bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
PTX_FN long long __double_as_longlong(double value) {
  long long bits;
  __builtin_memcpy(&bits, &value, 8);
  return bits;
}
template <class T>
PTX_FN T emulated_shuffle(u32 mask, T value, EmulatedShuffle how, int argument) {
  static_assert(sizeof(T) == 4, "shuffles move 32 bits");
  u32 bits;
  __builtin_memcpy(&bits, &value, 4);
  bits = emulator_calls->shuffle(mask, bits, how, argument);
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
#define __shfl_xor_sync(mask, value, lanes) emulated_shuffle(mask, value, kShuffleXor, lanes)
#define __shfl_sync(mask, value, lane) emulated_shuffle(mask, value, kShuffleIndex, lane)
#define __shfl_up_sync(mask, value, lanes) emulated_shuffle(mask, value, kShuffleUp, lanes)
#define __shfl_down_sync(mask, value, lanes) emulated_shuffle(mask, value, kShuffleDown, lanes)
PTX_FN u32 __ballot_sync(u32 mask, int predicate) { return emulator_calls->ballot(mask, predicate); }
PTX_FN int __all_sync(u32 mask, int predicate) { return emulator_calls->all(mask, predicate); }
PTX_FN int __popc(u32 bits) { return __builtin_popcount(bits); }
PTX_FN int __ffs(int bits) { return __builtin_ffs(bits); }
PTX_FN int min(int a, int b) { return a < b ? a : b; }
PTX_FN u32 min(u32 a, u32 b) { return a < b ? a : b; }
PTX_FN long long min(long long a, long long b) { return a < b ? a : b; }
PTX_FN int max(int a, int b) { return a > b ? a : b; }
PTX_FN u32 max(u32 a, u32 b) { return a > b ? a : b; }
PTX_FN long long max(long long a, long long b) { return a > b ? a : b; }
PTX_FN float fminf(float a, float b) { return __builtin_fminf(a, b); }
PTX_FN float fabsf(float a) { return __builtin_fabsf(a); }
PTX_FN float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
PTX_FN float fmaf(float a, float b, float c) { return a * b + c; }

// ---- wgmma ----

template <int TransB>
PTX_FN void wgmma_m64n32k16_bf16_rs(float (&d)[16], const u32 (&a)[4], u64 b, int scale_d) {
  emulator_calls->wgmma(d, 32, a, 0, b, scale_d, 0, TransB, 1);
}
template <int TransB>
PTX_FN void wgmma_m64n32k16_f16_rs(float (&d)[16], const u32 (&a)[4], u64 b, int scale_d) {
  emulator_calls->wgmma(d, 32, a, 0, b, scale_d, 0, TransB, 0);
}
template <int TransA, int TransB>
PTX_FN void wgmma_m64n32k16_bf16_ss(float (&d)[16], u64 a, u64 b, int scale_d) {
  emulator_calls->wgmma(d, 32, nullptr, a, b, scale_d, TransA, TransB, 1);
}
template <int TransA, int TransB>
PTX_FN void wgmma_m64n32k16_f16_ss(float (&d)[16], u64 a, u64 b, int scale_d) {
  emulator_calls->wgmma(d, 32, nullptr, a, b, scale_d, TransA, TransB, 0);
}
template <int TransA, int TransB>
PTX_FN void wgmma_m64n64k16_bf16_ss(float (&d)[32], u64 a, u64 b, int scale_d) {
  emulator_calls->wgmma(d, 64, nullptr, a, b, scale_d, TransA, TransB, 1);
}
template <int TransA, int TransB>
PTX_FN void wgmma_m64n64k16_f16_ss(float (&d)[32], u64 a, u64 b, int scale_d) {
  emulator_calls->wgmma(d, 64, nullptr, a, b, scale_d, TransA, TransB, 0);
}
template <int TransB>
PTX_FN void wgmma_m64n256k16_bf16_rs(float (&d)[128], const u32 (&a)[4], u64 b, int scale_d) {
  emulator_calls->wgmma(d, 256, a, 0, b, scale_d, 0, TransB, 1);
}
template <int TransB>
PTX_FN void wgmma_m64n256k16_f16_rs(float (&d)[128], const u32 (&a)[4], u64 b, int scale_d) {
  emulator_calls->wgmma(d, 256, a, 0, b, scale_d, 0, TransB, 0);
}
template <int TransA, int TransB>
PTX_FN void wgmma_m64n256k16_bf16_ss(float (&d)[128], u64 a, u64 b, int scale_d) {
  emulator_calls->wgmma(d, 256, nullptr, a, b, scale_d, TransA, TransB, 1);
}
template <int TransA, int TransB>
PTX_FN void wgmma_m64n256k16_f16_ss(float (&d)[128], u64 a, u64 b, int scale_d) {
  emulator_calls->wgmma(d, 256, nullptr, a, b, scale_d, TransA, TransB, 0);
}
PTX_FN u64 wgmma_descriptor(u32 low, u32 high) { return (u64)high << 32 | low; }
PTX_FN void wgmma_fence() { emulator_calls->wgmma_fence(); }
PTX_FN void wgmma_commit_group() { emulator_calls->wgmma_commit_group(); }
template <int Pending>
PTX_FN void wgmma_wait_group() {
  emulator_calls->wgmma_wait_group(Pending);
}
template <int Registers>
PTX_FN void setmaxnreg_inc() {
  emulator_calls->setmaxnreg(1, Registers);
}
template <int Registers>
PTX_FN void setmaxnreg_dec() {
  emulator_calls->setmaxnreg(0, Registers);
}

// ---- mma.sync ----

PTX_FN void mma_m16n8k16_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { emulator_calls->mma(d, a, b0, b1, 1); }
PTX_FN void mma_m16n8k16_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { emulator_calls->mma(d, a, b0, b1, 0); }

// ---- matrices between shared memory and registers ----

PTX_FN void ldmatrix_x4(u32 (&r)[4], u32 address) { emulator_calls->ldmatrix(r, address, 0); }
PTX_FN void ldmatrix_x4_trans(u32 (&r)[4], u32 address) { emulator_calls->ldmatrix(r, address, 1); }
PTX_FN void stmatrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  const u32 r[4] = {r0, r1, r2, r3};
  emulator_calls->stmatrix(address, r);
}

// ---- barriers and fences ----

PTX_FN void bar_sync(int barrier, int threads) { emulator_calls->bar(barrier, threads, 1); }
PTX_FN void bar_arrive(int barrier, int threads) { emulator_calls->bar(barrier, threads, 0); }
PTX_FN void fence_proxy_async() { emulator_calls->fence_proxy_async(); }
PTX_FN void mbarrier_init(u32 barrier, int arrivals) { emulator_calls->mbarrier_init(barrier, arrivals); }
PTX_FN void mbarrier_arrive(u32 barrier) { emulator_calls->mbarrier_arrive(barrier); }
PTX_FN void mbarrier_wait_parity(u32 barrier, int parity) { emulator_calls->mbarrier_wait_parity(barrier, parity); }

// ---- clusters ----

PTX_FN void barrier_cluster_arrive_release() { emulator_calls->cluster_arrive(); }
PTX_FN void barrier_cluster_wait_acquire() { emulator_calls->cluster_wait(); }
PTX_FN void fence_mbarrier_init() { emulator_calls->fence_mbarrier_init(); }
PTX_FN u32 mapa_shared_cluster(u32 address, u32 rank) { return emulator_calls->mapa(address, rank); }
PTX_FN void st_shared_cluster_u32(u32 address, u32 value) { emulator_calls->st_shared_cluster(address, value); }
PTX_FN void st_async_v4_u32(u32 address, u32 x, u32 y, u32 z, u32 w, u32 barrier) {
  const u32 values[4] = {x, y, z, w};
  emulator_calls->st_async(address, values, barrier);
}
PTX_FN void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  emulator_calls->mbarrier_arrive_expect_tx(barrier, bytes);
}
PTX_FN void mbarrier_arrive_cluster(u32 barrier) { emulator_calls->mbarrier_arrive_cluster(barrier); }
PTX_FN void mbarrier_wait_parity_cluster(u32 barrier, u32 parity) {
  emulator_calls->mbarrier_wait_parity(barrier, (int)parity);
}

// ---- asynchronous copies ----

PTX_FN void cp_async_16(u32 destination, const void* source) { emulator_calls->cp_async(destination, source, 16); }
PTX_FN void cp_async_16_zfill(u32 destination, const void* source, int source_bytes) {
  emulator_calls->cp_async(destination, source, source_bytes);
}
PTX_FN void cp_async_commit_group() { emulator_calls->cp_async_commit_group(); }
template <int Pending>
PTX_FN void cp_async_wait_group() {
  emulator_calls->cp_async_wait_group(Pending);
}
PTX_FN void cp_async_mbarrier_arrive_noinc(u32 barrier) { emulator_calls->cp_async_mbarrier_arrive_noinc(barrier); }
PTX_FN void cp_async_bulk_prefetch_L2(const void* source, int bytes) { emulator_calls->bulk_prefetch(source, bytes); }

// ---- shared memory ----

PTX_FN u32 shared_address(const void* pointer) { return emulator_calls->shared_address(pointer); }
PTX_FN void st_shared_u32(u32 address, u32 value) { emulator_calls->st_shared(address, &value, 4); }
PTX_FN void st_shared_v4_u32(u32 address, u32 x, u32 y, u32 z, u32 w) {
  const u32 values[4] = {x, y, z, w};
  emulator_calls->st_shared(address, values, 16);
}
PTX_FN u32 ld_shared_u32(u32 address) {
  u32 value;
  emulator_calls->ld_shared(&value, address, 4);
  return value;
}
PTX_FN void ld_shared_v2_u32(u32& x, u32& y, u32 address) {
  u32 values[2];
  emulator_calls->ld_shared(values, address, 8);
  x = values[0];
  y = values[1];
}
PTX_FN void ld_shared_v4_u32(u32 (&r)[4], u32 address) { emulator_calls->ld_shared(r, address, 16); }
PTX_FN u32 atom_shared_or_u32(u32 address, u32 bits) { return emulator_calls->atom_shared_or(address, bits); }

// ---- global memory ----

PTX_FN u32 ld_global_nc_u32(const void* pointer) {
  u32 value;
  emulator_calls->ld_global(&value, pointer, 4, kGlobalReadNc);
  return value;
}
PTX_FN float ld_global_nc_f32(const float* pointer) {
  float value;
  emulator_calls->ld_global(&value, pointer, 4, kGlobalReadNc);
  return value;
}
PTX_FN u64 ld_global_nc_u64(const void* pointer) {
  u64 value;
  emulator_calls->ld_global(&value, pointer, 8, kGlobalReadNc);
  return value;
}
PTX_FN void ld_global_nc_v2_u32(u32 (&r)[2], const void* pointer) {
  emulator_calls->ld_global(r, pointer, 8, kGlobalReadNc);
}
PTX_FN void ld_global_nc_v4_u32(u32 (&r)[4], const void* pointer) {
  emulator_calls->ld_global(r, pointer, 16, kGlobalReadNc);
}
PTX_FN u32 ld_relaxed_gpu_u32(const u32* pointer) {
  u32 value;
  emulator_calls->ld_global(&value, pointer, 4, kGlobalReadRelaxed);
  return value;
}
PTX_FN void st_global_u32(void* pointer, u32 value) { emulator_calls->st_global(pointer, &value, 4); }
PTX_FN void st_global_v2_u32(void* pointer, u32 x, u32 y) {
  const u32 values[2] = {x, y};
  emulator_calls->st_global(pointer, values, 8);
}
PTX_FN void st_global_f32(float* pointer, float value) { emulator_calls->st_global(pointer, &value, 4); }
PTX_FN void st_global_v4_u32(void* pointer, u32 x, u32 y, u32 z, u32 w) {
  const u32 values[4] = {x, y, z, w};
  emulator_calls->st_global(pointer, values, 16);
}
PTX_FN void st_global_cs_v4_u32(void* pointer, u32 x, u32 y, u32 z, u32 w) {
  const u32 values[4] = {x, y, z, w};
  emulator_calls->st_global(pointer, values, 16);
}
PTX_FN void red_add_u32(u32* pointer, u32 value) { emulator_calls->red_u32(pointer, value); }
PTX_FN void red_add_f32(float* pointer, float value) { emulator_calls->red_f32(pointer, &value, 1); }
PTX_FN void red_add_v4_f32(float* pointer, float x, float y, float z, float w) {
  const float values[4] = {x, y, z, w};
  emulator_calls->red_f32(pointer, values, 4);
}
template <u32 Limit>
PTX_FN void red_add_v4_f32_below(u32 key, const void* pointer, float x, float y, float z, float w) {
  const float values[4] = {x, y, z, w};
  if (key < Limit) emulator_calls->red_f32((void*)pointer, values, 4);
}
template <u32 Limit, int Offset>
PTX_FN void red_add_u64_below(u32 key, const void* pointer, u64 value) {
  if (key < Limit) emulator_calls->red_u64((char*)pointer + Offset, value);
}
template <u32 Limit>
PTX_FN void red_add_noftz_v4_f16x2_below(u32 key, const void* pointer, u32 x, u32 y, u32 z, u32 w) {
  const u32 values[4] = {x, y, z, w};
  if (key < Limit) emulator_calls->red_f16x2((void*)pointer, values, 4);
}
template <u32 Limit, u32 Most, int Offset>
PTX_FN void red_or_u32_below_above(u32 key, u32 value, const void* pointer, u32 bits) {
  if (key < Limit && value > Most) emulator_calls->red_or_u32((char*)pointer + Offset, bits);
}

// ---- special registers ----

PTX_FN u32 ctaid_x() { return blockIdx.x; }
PTX_FN u32 cluster_ctarank() { return emulator_calls->thread->cluster_rank; }
PTX_FN u32 tid_x() { return threadIdx.x; }

// ---- arithmetic ----

PTX_FN u32 cvt_rn_bf16x2_f32(float low, float high) { return emulator_calls->pack(low, high, 1); }
PTX_FN u32 cvt_rn_f16x2_f32(float low, float high) { return emulator_calls->pack(low, high, 0); }
PTX_FN float cvt_f32_f16(u16 bits) { return emulator_calls->cvt_f32_f16(bits); }
PTX_FN float ex2_approx_ftz(float x) { return emulator_calls->ex2(x); }
PTX_FN float lg2_approx(float x) { return emulator_calls->lg2(x); }
PTX_FN float sqrt_approx(float x) { return __builtin_sqrtf(x); }
