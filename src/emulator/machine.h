// The state of a launch: clusters of CTAs in flight with their warps and lanes. Everything else of the
// emulator works on it.
#pragma once

#include <array>
#include <csetjmp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/clock.h"
#include "emulator/copy.h"
#include "emulator/device/calls.h"
#include "emulator/fiber.h"
#include "emulator/launch.h"
#include "emulator/mbarrier.h"
#include "emulator/report.h"
#include "emulator/shared_memory.h"
#include "emulator/unused_loads.h"
#include "emulator/wgmma.h"

namespace smla::core::emulator {

struct Cta;
struct Cluster;

enum class LaneState : u8 {
  ready,
  in_collective,
  in_barrier,
  in_cluster_barrier,
  in_mbarrier,
  in_setmaxnreg,
  done
};

struct Lane : EmulatedThread {
  Cta* cta = nullptr;
  u32 index = 0;   // in its CTA
  u32 number = 0;  // in its cluster
  u32 warp = 0;
  u32 lane = 0;  // in its warp
  Fiber fiber;
  LaneState state = LaneState::done;

  const void* place = nullptr;     // of its last call, in the kernel's machine code
  const char* waits_in = nullptr;  // while it is not ready
  u32 wait_barrier = 0;
  int wait_parity = 0;

  Clocks clocks;
  std::array<u32, 16> fences = {};  // the warp's clock at its last fence.proxy.async
  u32 fence_count = 0;
  std::vector<u32> phases_seen;  // of each mbarrier: completed phases that this lane has waited for
  CopyQueue copies;
};

// Lanes of a warp that have come to a collective operation.
struct Meeting {
  u32 arrived = 0;
  int operation = 0;
  u64 key = 0;  // immediates that have to agree
  std::array<void*, kLanes> argument = {};
};

struct Warp {
  u32 index = 0;
  u32 component = 0;        // of the clocks
  u32 ready = 0, live = 0;  // lanes
  Meeting meeting;
  u32 clock = 1, engine_clock = 1;
  bool clocks_differ = true;  // between its lanes
  u32 registers = 0;          // a thread
  u32 queued_copies = 0;      // in the queues of its lanes
  std::vector<AsyncStore> async_stores;
  u32 cluster_arrivals = 0, cluster_waits = 0;  // at the cluster's barrier
  UnusedLoads unused_loads;
  WgmmaState wgmma;

  u32 engine() const { return kFirstEngine + component; }
};

struct NamedBarrier {
  int expected = 0, arrived = 0;
  u32 warps = 0;
  Clocks clocks;
  std::vector<Warp*> waiting;
};

constexpr u32 kNamedBarriers = 16;

// The last access of a component of the clocks to the shared memory of a CTA of which it is no part.
struct PeerAccess {
  u32 clock = 0;
  const Lane* lane = nullptr;
  const void* place = nullptr;
  const char* what = nullptr;
};

struct Cta {
  u32 index = 0;  // blockIdx.x
  u32 rank = 0;   // in its cluster
  Cluster* cluster = nullptr;
  u32 warp_count = 0;
  std::unique_ptr<Lane[]> lanes;  // warp_count * 32
  u32 lane_capacity = 0;
  std::array<Warp, kMaxWarps> warps;
  SharedMemory shared;
  std::array<NamedBarrier, kNamedBarriers> barriers;
  std::vector<Mbarrier> mbarriers;
  std::array<std::vector<u64>, kMaxWarps / 4> wgmma_log;  // of each warpgroup: keys in order
  u32 registers_free = 0;
  u32 live_lanes = 0;
  std::array<u32, 2 * kMaxWarps> priority = {};
  std::array<PeerAccess, kComponents> peer_accesses = {};
  Clock seen_at_exit;  // by any of its lanes that have left
};

// CTAs that run at the same time; most clusters are of one.
struct Cluster {
  std::vector<Cta*> ctas;  // by rank
  u32 barrier_phase = 0;   // completed ones of barrier.cluster
  Clocks arriving, completed;
  u32 byte_counts = 0;  // mbarriers that have counted bytes so far

  bool of_several() const { return ctas.size() > 1; }
};

struct Machine {
  EmulatorCalls calls = {};  // calls.thread is the running Lane, null while the scheduler runs
  LaunchOptions options;
  Report* report = nullptr;
  std::map<std::string, bool> reported;  // by kind and place
  u64 random_state = 1;
  bool stopped = false;
  u32 epoch = 0;  // number of the launch in this process
  std::vector<std::unique_ptr<Cta>> slots;
  std::vector<Cluster> clusters;  // in flight
  const std::function<void()>* kernel = nullptr;
  sigjmp_buf crash;

  u64 random();
};

Machine& machine();

inline Lane& me() {
  return *static_cast<Lane*>(machine().calls.thread);
}
inline bool in_lane() {
  return machine().calls.thread != nullptr;
}
inline Warp& my_warp() {
  return me().cta->warps[me().warp];
}
inline Lane& lane_of(Cta& cta, u32 warp, u32 lane) {
  return cta.lanes[warp * kLanes + lane];
}
inline const Lane& lane_of_number(const Cluster& cluster, u32 number) {
  const u32 threads = cluster.ctas[0]->warp_count * kLanes;
  return cluster.ctas[number / threads]->lanes[number % threads];
}

// Remembers where in the kernel's text the calling function was called: first statement of each function of
// the table.
[[gnu::always_inline]] inline void note_place() {
  me().place = __builtin_return_address(0);
}

}  // namespace smla::core::emulator
