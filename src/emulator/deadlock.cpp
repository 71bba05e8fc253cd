#include "emulator/deadlock.h"

#include <map>

#include "emulator/findings.h"
#include "emulator/machine.h"

namespace smla::core::emulator {
namespace {

std::string missing_at_cluster_barrier(const Cluster& cluster) {
  std::string text;
  for (const Cta* cta : cluster.ctas) {
    for (u32 w = 0; w < cta->warp_count; ++w) {
      if (cta->warps[w].live && cta->warps[w].cluster_arrivals == cluster.barrier_phase)
        text += fmt::format("{} warp {} of CTA {}", text.empty() ? " for" : ",", w, cta->index);
    }
  }
  return text;
}

std::string wait_text(const Cta& cta, const Lane& lane) {
  std::string text = lane.state == LaneState::ready ? "running" : lane.waits_in;
  if (lane.state == LaneState::in_mbarrier) {
    for (const Mbarrier& barrier : cta.mbarriers) {
      if (barrier.offset != lane.wait_barrier) continue;
      text += fmt::format(" with parity {} on the mbarrier at {}, phase {}, {} of {} arrivals missing",
                          lane.wait_parity, shared_place(cta, barrier.offset), barrier.phase, barrier.pending,
                          barrier.count);
      if (barrier.byte_count) text += fmt::format(", {} bytes missing", barrier.bytes);
      if (barrier.has_peers) text += ", some from peers";
    }
  }
  if (lane.state == LaneState::in_barrier) {
    const NamedBarrier& barrier = cta.barriers[lane.wait_barrier];
    text += fmt::format(" of barrier {}, {} of {} threads there", lane.wait_barrier, barrier.arrived,
                        barrier.expected);
  }
  if (lane.state == LaneState::in_cluster_barrier) text += missing_at_cluster_barrier(*cta.cluster);
  return text + " at " + place_mark(lane.place);
}

}  // namespace

std::string deadlock_text(const std::vector<Cta*>& running) {
  std::string text;
  for (Cta* cta : running) {
    for (u32 w = 0; w < cta->warp_count; ++w) {
      std::map<std::string, int> lanes;
      for (u32 l = 0; l < kLanes; ++l) {
        const Lane& lane = lane_of(*cta, w, l);
        if (lane.state != LaneState::done) ++lanes[wait_text(*cta, lane)];
      }
      for (const auto& [what, count] : lanes) {
        text += fmt::format("\n      CTA {} warp {:2}: {:2} lanes in {}", cta->index, w, count, what);
      }
    }
  }
  return text;
}

}  // namespace smla::core::emulator
