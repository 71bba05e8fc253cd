// Clusters: the barrier of all their threads, and the shared memory of peers.
#pragma once

#include "emulator/clock.h"

namespace smla::core::emulator {

struct Cluster;
struct Cta;

// What a shared::cluster address names.
struct SharedPlace {
  Cta& cta;
  u32 offset;
};

// Ends the run unless the address names shared memory of a CTA of the running lane's cluster, and is aligned.
// A finding when that CTA may not have begun yet, or has ended.
SharedPlace cluster_shared(u32 address, u32 bytes, u32 alignment, const char* what);

// At the end of a CTA, when its shared memory goes: a finding unless all that peers did there comes before.
void check_peer_accesses(const Cta& cta);

// Completes the phase of the cluster's barrier if every warp that has not left has arrived.
void advance_cluster_barrier(Cluster& cluster);

// The table's functions.
void call_cluster_arrive();
void call_cluster_wait();
void call_fence_mbarrier_init();
u32 call_mapa(u32 address, u32 rank);
void call_st_shared_cluster(u32 address, u32 value);

}  // namespace smla::core::emulator
