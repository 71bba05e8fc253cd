// The table through which the text of a kernel, compiled for the host, calls the emulator. Both sides compile
// this file; the twin of templates/ptx.cuh is the only text that uses it.
#pragma once

struct EmulatedDim3 {
  unsigned int x, y, z;
};

struct EmulatedThread {
  EmulatedDim3 thread_index;
  EmulatedDim3 block_index;
  unsigned int cluster_rank;
};

enum EmulatedShuffle { kShuffleXor, kShuffleIndex, kShuffleUp, kShuffleDown };

enum EmulatedGlobalAccess { kGlobalRead, kGlobalReadNc, kGlobalReadRelaxed, kGlobalWrite };

struct EmulatorCalls {
  EmulatedThread* thread;  // the one that runs now
  EmulatedDim3 block_dim, grid_dim;

  void (*trap)();
  void* (*dynamic_shared)();
  void* (*static_shared)(int line, int bytes);
  unsigned int (*shared_address)(const void* pointer);

  // Collectives of a warp: return when its 32 lanes have met.
  void (*wgmma)(float* d, int n, const unsigned int* a_fragment, unsigned long long a, unsigned long long b,
                int scale_d, int trans_a, int trans_b, int is_bf16);
  void (*wgmma_fence)();
  void (*wgmma_commit_group)();
  void (*wgmma_wait_group)(int pending);
  void (*setmaxnreg)(int increase, int registers);
  void (*mma)(float* d, const unsigned int* a, unsigned int b0, unsigned int b1, int is_bf16);
  void (*ldmatrix)(unsigned int* r, unsigned int address, int transposed);
  void (*stmatrix)(unsigned int address, const unsigned int* r);
  unsigned int (*shuffle)(unsigned int mask, unsigned int value, int how, int argument);
  unsigned int (*ballot)(unsigned int mask, int predicate);
  int (*all)(unsigned int mask, int predicate);
  void (*syncwarp)(unsigned int mask);
  void (*bar)(int barrier, int threads, int waits);
  void (*cluster_arrive)();
  void (*cluster_wait)();

  void (*fence_proxy_async)();
  void (*fence_mbarrier_init)();
  void (*mbarrier_init)(unsigned int barrier, int arrivals);
  void (*mbarrier_arrive)(unsigned int barrier);
  void (*mbarrier_arrive_cluster)(unsigned int barrier);
  void (*mbarrier_arrive_expect_tx)(unsigned int barrier, unsigned int bytes);
  void (*mbarrier_wait_parity)(unsigned int barrier, int parity);

  void (*cp_async)(unsigned int destination, const void* source, int source_bytes);
  void (*cp_async_commit_group)();
  void (*cp_async_wait_group)(int pending);
  void (*cp_async_mbarrier_arrive_noinc)(unsigned int barrier);
  void (*st_async)(unsigned int address, const unsigned int* value, unsigned int barrier);
  void (*bulk_prefetch)(const void* source, int bytes);

  void (*st_shared)(unsigned int address, const void* value, int bytes);
  void (*ld_shared)(void* value, unsigned int address, int bytes);
  unsigned int (*atom_shared_or)(unsigned int address, unsigned int bits);
  unsigned int (*mapa)(unsigned int address, unsigned int rank);
  void (*st_shared_cluster)(unsigned int address, unsigned int value);

  // `bytes` is the alignment that the instruction asks for, too.
  void (*ld_global)(void* value, const void* pointer, int bytes, int access);
  void (*st_global)(void* pointer, const void* value, int bytes);
  void (*red_u32)(unsigned int* pointer, unsigned int value);
  void (*red_or_u32)(void* pointer, unsigned int bits);
  void (*red_u64)(void* pointer, unsigned long long value);
  void (*red_f32)(void* pointer, const float* values, int count);
  void (*red_f16x2)(void* pointer, const unsigned int* pairs, int count);

  unsigned int (*pack)(float low, float high, int is_bf16);
  float (*cvt_f32_f16)(unsigned short bits);
  float (*ex2)(float x);
  float (*lg2)(float x);
};
