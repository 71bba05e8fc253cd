#include "emulator/cluster.h"

#include <cstring>

#include "emulator/findings.h"
#include "emulator/machine.h"
#include "emulator/scheduler.h"

namespace smla::core::emulator {
namespace {

// Whether something that a warp of the CTA has done is ordered before the lane. A peer that knows of nothing
// does not know that the CTA runs.
bool knows_of(const Lane& lane, const Cta& cta) {
  for (u32 w = 0; w < cta.warp_count; ++w) {
    if (lane.clocks.seen.at[cta.warps[w].component] > 0) return true;
  }
  return false;
}

}  // namespace

SharedPlace cluster_shared(u32 address, u32 bytes, u32 alignment, const char* what) {
  const Lane& lane = me();
  const Cluster& cluster = *lane.cta->cluster;
  const u32 rank = address >> kRankShift;
  if (rank >= cluster.ctas.size()) {
    found_fatal("shared-oob", "{} at shared::cluster address 0x{:x}, of rank {} in a cluster of {}", what,
                address, rank, cluster.ctas.size());
  }
  Cta& cta = *cluster.ctas[rank];
  const u32 offset = address ^ (rank << kRankShift);
  check_shared_bounds(cta, offset, bytes, alignment, what);
  if (&cta != lane.cta && cta.live_lanes == 0) {
    found("peer-exited", "{} to {}, and the CTA has ended", what, shared_place(cta, offset));
  } else if (&cta != lane.cta && !knows_of(lane, cta)) {
    found("peer-not-started", "{} to {}, and nothing says that the CTA has begun", what,
          shared_place(cta, offset));
  }
  return {cta, offset};
}

void check_peer_accesses(const Cta& cta) {
  for (u32 component = 0; component < kComponents; ++component) {
    const PeerAccess& access = cta.peer_accesses[component];
    if (access.clock <= cta.seen_at_exit.at[component]) continue;
    found("peer-exited",
          "the CTA ends here, and nothing orders that after the {} of warp {} lane {}{} at {} to its shared "
          "memory",
          access.what, access.lane->warp, access.lane->lane, of_cta(*access.lane->cta),
          place_mark(access.place));
  }
}

void advance_cluster_barrier(Cluster& cluster) {
  for (const Cta* cta : cluster.ctas) {
    for (u32 w = 0; w < cta->warp_count; ++w) {
      if (cta->warps[w].live && cta->warps[w].cluster_arrivals == cluster.barrier_phase) return;
    }
  }
  ++cluster.barrier_phase;
  cluster.completed = cluster.arriving;
  for (Cta* cta : cluster.ctas) {
    for (u32 i = 0; i < cta->warp_count * kLanes; ++i) {
      Lane& lane = cta->lanes[i];
      if (lane.state != LaneState::in_cluster_barrier) continue;
      lane.clocks.join(cluster.completed);
      make_ready(lane);
    }
  }
}

// Releases to all of the cluster: unlike an arrival at a peer's mbarrier it waits for what its warp has
// loaded.
void call_cluster_arrive() {
  note_place();
  collective(kClusterArrive, 0, nullptr, "barrier.cluster.arrive", [](Warp& warp) {
    Cluster& cluster = *me().cta->cluster;
    if (warp.cluster_arrivals > warp.cluster_waits) {
      found_fatal("cluster-barrier", "warp {} arrives at the cluster's barrier twice with no wait in between",
                  warp.index);
    }
    ++warp.cluster_arrivals;
    use_loads(warp);
    cluster.arriving.join(release(me()));
    advance_cluster_barrier(cluster);
  });
}

void call_cluster_wait() {
  note_place();
  Lane& lane = me();
  bool has_to_wait = false;
  collective(kClusterWait, 0, &has_to_wait, "barrier.cluster.wait", [](Warp& warp) {
    Cta& cta = *me().cta;
    if (warp.cluster_waits == warp.cluster_arrivals) {
      found_fatal("cluster-barrier", "warp {} waits at the cluster's barrier without having arrived",
                  warp.index);
    }
    ++warp.cluster_waits;
    if (cta.cluster->barrier_phase >= warp.cluster_arrivals) {
      for (u32 i = 0; i < kLanes; ++i) lane_of(cta, warp.index, i).clocks.join(cta.cluster->completed);
      return;
    }
    for (u32 i = 0; i < kLanes; ++i) {
      Lane& waiting = lane_of(cta, warp.index, i);
      *static_cast<bool*>(warp.meeting.argument[i]) = true;
      waiting.state = LaneState::in_cluster_barrier;
      waiting.waits_in = "barrier.cluster.wait";
    }
    warp.ready = 0;
  });
  if (has_to_wait && lane.state == LaneState::in_cluster_barrier) lane.fiber.leave();
}

// Orders inits before later operations of the thread; the cluster's barrier releases them, too.
void call_fence_mbarrier_init() {
  note_place();
}

u32 call_mapa(u32 address, u32 rank) {
  note_place();
  const Cta& cta = *me().cta;
  if (rank >= cta.cluster->ctas.size() || address >> kRankShift != cta.rank) {
    found_fatal("shared-rank",
                "mapa of shared address 0x{:x} to rank {}, by a CTA of rank {} in a cluster of {}", address,
                rank, cta.rank, cta.cluster->ctas.size());
  }
  return address ^ (cta.rank ^ rank) << kRankShift;
}

void call_st_shared_cluster(u32 address, u32 value) {
  note_place();
  const SharedPlace place = cluster_shared(address, 4, 4, "st.shared::cluster");
  shared_write(place.cta, me(), place.offset, 4, "st.shared::cluster");
  std::memcpy(place.cta.shared.data(place.offset), &value, 4);
}

}  // namespace smla::core::emulator
