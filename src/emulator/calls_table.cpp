#include "emulator/calls_table.h"

#include "emulator/arithmetic.h"
#include "emulator/barrier.h"
#include "emulator/cluster.h"
#include "emulator/copy.h"
#include "emulator/exchange.h"
#include "emulator/findings.h"
#include "emulator/global_memory.h"
#include "emulator/machine.h"
#include "emulator/matrix.h"
#include "emulator/wgmma.h"

namespace smla::core::emulator {
namespace {

void call_trap() {
  note_place();
  found_fatal("trap", std::string("the kernel gives up (__trap)"));
}

}  // namespace

EmulatorCalls* calls_table() {
  EmulatorCalls& calls = machine().calls;
  calls.trap = call_trap;
  calls.dynamic_shared = call_dynamic_shared;
  calls.static_shared = call_static_shared;
  calls.shared_address = call_shared_address;
  calls.wgmma = call_wgmma;
  calls.wgmma_fence = call_wgmma_fence;
  calls.wgmma_commit_group = call_wgmma_commit_group;
  calls.wgmma_wait_group = call_wgmma_wait_group;
  calls.setmaxnreg = call_setmaxnreg;
  calls.mma = call_mma;
  calls.ldmatrix = call_ldmatrix;
  calls.stmatrix = call_stmatrix;
  calls.shuffle = call_shuffle;
  calls.ballot = call_ballot;
  calls.all = call_all;
  calls.syncwarp = call_syncwarp;
  calls.bar = call_bar;
  calls.cluster_arrive = call_cluster_arrive;
  calls.cluster_wait = call_cluster_wait;
  calls.fence_proxy_async = call_fence_proxy_async;
  calls.fence_mbarrier_init = call_fence_mbarrier_init;
  calls.mbarrier_init = call_mbarrier_init;
  calls.mbarrier_arrive = call_mbarrier_arrive;
  calls.mbarrier_arrive_cluster = call_mbarrier_arrive_cluster;
  calls.mbarrier_arrive_expect_tx = call_mbarrier_arrive_expect_tx;
  calls.mbarrier_wait_parity = call_mbarrier_wait_parity;
  calls.cp_async = call_cp_async;
  calls.cp_async_commit_group = call_cp_async_commit_group;
  calls.cp_async_wait_group = call_cp_async_wait_group;
  calls.cp_async_mbarrier_arrive_noinc = call_cp_async_mbarrier_arrive_noinc;
  calls.st_async = call_st_async;
  calls.bulk_prefetch = call_bulk_prefetch;
  calls.st_shared = call_st_shared;
  calls.ld_shared = call_ld_shared;
  calls.mapa = call_mapa;
  calls.st_shared_cluster = call_st_shared_cluster;
  calls.atom_shared_or = call_atom_shared_or;
  calls.ld_global = call_ld_global;
  calls.st_global = call_st_global;
  calls.red_u32 = call_red_u32;
  calls.red_or_u32 = call_red_or_u32;
  calls.red_u64 = call_red_u64;
  calls.red_f32 = call_red_f32;
  calls.red_f16x2 = call_red_f16x2;
  calls.pack = call_pack;
  calls.cvt_f32_f16 = call_cvt_f32_f16;
  calls.ex2 = call_ex2;
  calls.lg2 = call_lg2;
  return &calls;
}

}  // namespace smla::core::emulator
