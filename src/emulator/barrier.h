// Named barriers, the barrier of a cluster, setmaxnreg, fence.proxy.async and __syncwarp.
#pragma once

#include "emulator/clock.h"

namespace smla::core::emulator {

struct Cluster;

// Completes the barrier's phase if every warp that has not left has arrived.
void advance_cluster_barrier(Cluster& cluster);

void call_bar(int barrier, int threads, int waits);
void call_cluster_arrive();
void call_cluster_wait();
void call_fence_mbarrier_init();
void call_setmaxnreg(int increase, int registers);
void call_fence_proxy_async();
void call_syncwarp(u32 mask);

}  // namespace smla::core::emulator
