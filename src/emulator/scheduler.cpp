#include "emulator/scheduler.h"

#include <numeric>

#include "emulator/cluster.h"
#include "emulator/deadlock.h"

namespace smla::core::emulator {
namespace {

// One that can run: a warp, or at kMaxWarps + warp its copy engine.
struct Candidate {
  Cta* cta;
  u32 agent;
};

// A CTA's shared memory lasts until its last thread leaves.
void leave_cta(Lane& lane) {
  Cta& cta = *lane.cta;
  --cta.live_lanes;
  if (cta.cluster->of_several()) {
    cta.seen_at_exit.join(lane.clocks.seen);
    if (cta.live_lanes == 0) check_peer_accesses(cta);
  }
  advance_cluster_barrier(*cta.cluster);  // which waits for threads that have not left
}

void lane_main() {
  for (;;) {
    (*machine().kernel)();
    Lane& lane = me();
    Warp& warp = my_warp();
    if (warp.wgmma.in_flight()) {
      found("exit-with-wgmma-pending", "the kernel ends with wgmmas that no wait_group has waited for");
    }
    warp.live &= ~(1u << lane.lane);
    if (warp.meeting.arrived) diverged(warp, "the end of the kernel");
    lane.state = LaneState::done;
    warp.ready &= ~(1u << lane.lane);
    leave_cta(lane);
    lane.fiber.leave();
  }
}

void start_cta(Cta& cta, u32 index, u32 rank, const Grid& grid) {
  cta.index = index;
  cta.rank = rank;
  cta.warp_count = grid.threads / kLanes;
  cta.shared.restart(grid.shared_bytes);
  cta.barriers.fill({});
  cta.mbarriers.clear();
  for (auto& log : cta.wgmma_log) log.clear();
  cta.registers_free = 0;  // a launch gives every thread its share; setmaxnreg.dec gives some back
  cta.live_lanes = grid.threads;
  cta.peer_accesses.fill({});
  cta.seen_at_exit = {};
  const u32 registers = std::min(248u, 65536 / grid.threads / 8 * 8);
  for (u32 w = 0; w < cta.warp_count; ++w) {
    Warp& warp = cta.warps[w];
    warp = {};
    warp.index = w;
    warp.component = rank * cta.warp_count + w;
    warp.ready = warp.live = ~0u;
    warp.registers = registers;
  }
  for (u32 i = 0; i < grid.threads; ++i) {
    Lane& lane = cta.lanes[i];
    lane.thread_index = {i, 0, 0};
    lane.block_index = {index, 0, 0};
    lane.cluster_rank = rank;
    lane.cta = &cta;
    lane.index = i;
    lane.number = rank * grid.threads + i;
    lane.warp = i / kLanes;
    lane.lane = i % kLanes;
    lane.state = LaneState::ready;
    lane.place = nullptr;
    lane.waits_in = nullptr;
    lane.clocks = {};
    lane.fence_count = 0;
    lane.phases_seen.clear();
    lane.copies = {};
    lane.fiber.restart(lane_main);
  }
  ++machine().report->ctas;
}

void start_cluster(Cluster& cluster, u32 index, const Grid& grid) {
  cluster.barrier_phase = cluster.byte_counts = 0;
  cluster.arriving = cluster.completed = {};
  for (u32 rank = 0; rank < grid.cluster; ++rank) {
    cluster.ctas[rank]->cluster = &cluster;
    start_cta(*cluster.ctas[rank], index * grid.cluster + rank, rank, grid);
  }
}

bool has_ended(const Cluster& cluster) {
  return std::all_of(cluster.ctas.begin(), cluster.ctas.end(), [](const Cta* cta) {
    return cta->live_lanes == 0 && std::all_of(cta->warps.begin(), cta->warps.begin() + cta->warp_count,
                                               [](const Warp& warp) { return warp.async_stores.empty(); });
  });
}

std::vector<Candidate> candidates_of(const std::vector<Cta*>& running, std::vector<Candidate> reuse) {
  reuse.clear();
  for (Cta* cta : running) {
    for (u32 w = 0; w < cta->warp_count; ++w) {
      if (cta->warps[w].ready) reuse.push_back({cta, w});
      if (cta->warps[w].queued_copies || !cta->warps[w].async_stores.empty())
        reuse.push_back({cta, kMaxWarps + w});
    }
  }
  return reuse;
}

// By seed: even ones draw evenly; odd ones go by priorities that are redrawn every 8 .. 4,096 steps, so that
// one warp runs far ahead of the others.
const Candidate& choose(const std::vector<Candidate>& candidates, const std::vector<Cta*>& running) {
  Machine& m = machine();
  if (m.options.seed % 2 == 0) return candidates[m.random() % candidates.size()];
  constexpr std::array<u64, 4> kRedraw = {8, 64, 512, 4096};
  if (m.random() % kRedraw[(m.options.seed >> 1) & 3] == 0) {
    for (Cta* cta : running) {
      for (u32& priority : cta->priority) priority = static_cast<u32>(m.random());
    }
  }
  const Candidate* best = &candidates.front();
  for (const Candidate& c : candidates) {
    if (c.cta->priority[c.agent] > best->cta->priority[best->agent]) best = &c;
  }
  return *best;
}

// Runs each ready lane of a warp once, from a random one on, up or down.
void run_warp(Cta& cta, u32 index) {
  Machine& m = machine();
  Warp& warp = cta.warps[index];
  const u32 ready = warp.ready;
  const u32 step = m.random() % 2 ? 1 : kLanes - 1;
  u32 lane = static_cast<u32>(m.random()) % kLanes;
  for (u32 i = 0; i < kLanes; ++i, lane = (lane + step) % kLanes) {
    if (!(ready >> lane & 1) || !(warp.ready >> lane & 1)) continue;
    Lane& running = lane_of(cta, index, lane);
    m.calls.thread = &running;
    running.fiber.switch_to();
    m.calls.thread = nullptr;
    if (m.stopped) return;
  }
}

bool has_queued_copies(const Cta& cta) {
  for (u32 w = 0; w < cta.warp_count; ++w) {
    if (cta.warps[w].queued_copies) return true;
  }
  return false;
}

// Most seeds start clusters in their order, as the hardware was seen to; PTX promises none, so every fourth
// shuffles them.
std::vector<u32> start_order(u32 clusters) {
  std::vector<u32> order(clusters);
  std::iota(order.begin(), order.end(), 0u);
  if (machine().options.seed % 4 == 3) {
    for (u32 i = clusters; i > 1; --i) std::swap(order[i - 1], order[machine().random() % i]);
  }
  return order;
}

}  // namespace

void run_grid(const Grid& grid) {
  Machine& m = machine();
  const std::vector<u32> order = start_order(grid.ctas / grid.cluster);
  std::size_t next = 0;
  std::vector<Cta*> running;
  for (Cluster& cluster : m.clusters) {
    if (next == order.size()) break;
    start_cluster(cluster, order[next++], grid);
    for (Cta* cta : cluster.ctas) {
      for (u32& priority : cta->priority) priority = static_cast<u32>(m.random());
      running.push_back(cta);
    }
  }
  std::vector<Candidate> candidates;
  u64 steps = 0;
  while (!running.empty() && !m.stopped) {
    for (std::size_t i = 0; i < running.size();) {
      Cta& cta = *running[i];
      if (cta.live_lanes == 0 && has_queued_copies(cta)) {
        found_at_end("exit-with-cp.async-pending",
                     fmt::format("CTA {} has ended with copies that nobody has waited for", cta.index));
        return;
      }
      if (cta.rank > 0 || cta.live_lanes > 0 || !has_ended(*cta.cluster)) {
        ++i;
      } else if (next < order.size()) {
        start_cluster(*cta.cluster, order[next++], grid);
        ++i;
      } else {
        const auto first = running.begin() + static_cast<std::ptrdiff_t>(i);
        running.erase(first, first + grid.cluster);
      }
    }
    candidates = candidates_of(running, std::move(candidates));
    if (candidates.empty()) {
      if (running.empty()) return;
      found_at_end("deadlock", deadlock_text(running));
      return;
    }
    if (++steps > m.options.step_limit) {
      found_at_end("endless", fmt::format("still running after {} steps; the threads stand here:{}",
                                          m.options.step_limit, deadlock_text(running)));
      return;
    }
    ++m.report->steps;
    const Candidate chosen = choose(candidates, running);
    if (chosen.agent >= kMaxWarps) {
      run_engine(*chosen.cta, chosen.agent - kMaxWarps);
    } else {
      run_warp(*chosen.cta, chosen.agent);
    }
  }
}

void make_ready(Lane& lane) {
  lane.state = LaneState::ready;
  lane.cta->warps[lane.warp].ready |= 1u << lane.lane;
}

void block(LaneState state, const char* waits_in) {
  Lane& lane = me();
  lane.state = state;
  lane.waits_in = waits_in;
  my_warp().ready &= ~(1u << lane.lane);
  lane.fiber.leave();
}

void yield() {
  me().fiber.leave();
}

Clocks release(Lane& lane) {
  Warp& warp = lane.cta->warps[lane.warp];
  Clocks clocks = lane.clocks;
  clocks.seen.at[warp.component] = warp.clock++;
  warp.clocks_differ = true;
  return clocks;
}

Clocks release_to_peer(Lane& lane) {
  Clocks clocks = release(lane);
  for (Cta* cta : lane.cta->cluster->ctas) {
    for (u32 w = 0; w < cta->warp_count; ++w) {
      Warp& warp = cta->warps[w];
      u32& seen = clocks.seen.at[warp.component];
      const u32 done = warp.unused_loads.done_of(seen);
      if (done < seen) warp.unused_loads.overtaken_at(seen);
      seen = done;
    }
  }
  return clocks;
}

void acquire(Lane& lane, const Clocks& clocks) {
  lane.clocks.join(clocks);
  lane.cta->warps[lane.warp].clocks_differ = true;
}

void join_lanes(Warp& warp) {
  Lane* lanes = &lane_of(*me().cta, warp.index, 0);
  if (warp.clocks_differ) {
    Clocks joined = lanes[0].clocks;
    for (u32 i = 1; i < kLanes; ++i) joined.join(lanes[i].clocks);
    joined.seen.at[warp.component] = warp.clock;
    for (u32 i = 0; i < kLanes; ++i) lanes[i].clocks = joined;
    warp.clocks_differ = false;
  } else {
    for (u32 i = 0; i < kLanes; ++i) lanes[i].clocks.seen.at[warp.component] = warp.clock;
  }
  ++warp.clock;
}

void begin_load(const Cta& cta, Warp& warp) {
  if (cta.cluster->of_several()) warp.unused_loads.load(warp.clock);
}

void use_loads(Warp& warp) {
  warp.unused_loads.use_all(warp.clock);
}

void diverged(Warp& warp, const char* what) {
  const Lane& other = lane_of(*me().cta, warp.index, static_cast<u32>(__builtin_ctz(warp.meeting.arrived)));
  found_fatal("divergent-collective",
              "{} meets another operation, or other immediates, of the same warp: {} at {}", what,
              other.waits_in ? other.waits_in : "one", place_mark(other.place));
}

}  // namespace smla::core::emulator
