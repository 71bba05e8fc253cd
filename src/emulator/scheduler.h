// Who runs next, and how lanes of a warp meet.
#pragma once

#include "emulator/findings.h"
#include "emulator/machine.h"

namespace smla::core::emulator {

// Runs a grid to its end. The launch's state in machine() is set up.
void run_grid(const Grid& grid);

void make_ready(Lane& lane);
void block(LaneState state, const char* waits_in);  // the running lane, until make_ready
void yield();                                       // the running lane, to whoever is next

// What the lane's warp has done up to here, for those who acquire it; what it does from here on is later.
Clocks release(Lane& lane);
// The same at an arrival in another CTA, which loads may be behind whose values nobody has used.
Clocks release_to_peer(Lane& lane);
void acquire(Lane& lane, const Clocks& clocks);
void join_lanes(Warp& warp);  // all lanes of the running lane's warp know what each of them knows

// In a cluster of several CTAs: a load of the warp that is unused so far, and a use of all of them.
void begin_load(const Cta& cta, Warp& warp);
void use_loads(Warp& warp);

enum Operation {
  kWgmma = 1,
  kWgmmaFence,
  kWgmmaCommit,
  kWgmmaWait,
  kSetmaxnreg,
  kBar,
  kSyncwarp,
  kMma,
  kLdmatrix,
  kStmatrix,
  kShuffle,
  kBallot,
  kAll,
  kClusterArrive,
  kClusterWait
};

// Where the lanes that wait for the running lane's warp stand.
[[noreturn]] void diverged(Warp& warp, const char* what);

// Meets the other 31 lanes; the last one executes `execute(warp)` for all, with their arguments in
// warp.meeting.argument. A lane that does something else meanwhile, or the same with other immediates
// (`key`), ends the run.
template <class Execute>
void collective(Operation operation, u64 key, void* argument, const char* what, Execute execute) {
  Lane& lane = me();
  Warp& warp = my_warp();
  Meeting& meeting = warp.meeting;
  if (meeting.arrived == 0) {
    meeting.operation = operation;
    meeting.key = key;
  } else if (meeting.operation != operation || meeting.key != key) {
    diverged(warp, what);
  }
  if (warp.live != ~0u) {
    found_fatal("divergent-collective", "{}, but lanes have left the kernel (those that are here: {:08x})",
                what, warp.live);
  }
  meeting.argument[lane.lane] = argument;
  meeting.arrived |= 1u << lane.lane;
  if (meeting.arrived != ~0u) {
    block(LaneState::in_collective, what);
    return;
  }
  ++machine().report->collectives;
  meeting.arrived = 0;
  for (u32 i = 0; i < kLanes; ++i) {
    if (i != lane.lane) make_ready(lane_of(*lane.cta, lane.warp, i));
  }
  join_lanes(warp);
  execute(warp);
}

}  // namespace smla::core::emulator
