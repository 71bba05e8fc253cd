// Asynchronous copies from global to shared memory, and stores to that of a peer: each lane has a queue of
// copies, each warp an engine that empties the queues of its lanes and delivers its stores when it likes.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "emulator/clock.h"

namespace smla::core::emulator {

struct Cta;
struct Lane;

struct Copy {
  enum class Kind : u8 { copy, arrive, commit };
  Kind kind = Kind::copy;
  u32 destination = 0;
  u32 source_bytes = 0;  // the rest of the 16 becomes zero
  const void* source = nullptr;
  u32 barrier = 0;
  u32 clock = 0;  // of the engine, when the arrival was queued
  std::unique_ptr<Clocks> clocks = {};
};

// A st.async of 16 bytes on its way. Stores land in any order.
struct AsyncStore {
  Cta* target = nullptr;
  u32 destination = 0, barrier = 0;  // offsets in the target's shared memory
  std::array<u32, 4> value = {};
  u32 lane = 0;  // its number in the cluster
  Clocks clocks;
  const void* place = nullptr;
};

struct CopyQueue {
  std::deque<Copy> queued;
  struct Landed {
    u32 address;
    u32 group;
  };
  std::vector<Landed> landed;  // in shared memory, but not yet known to be
  u32 groups_committed = 0;
  u32 group_of_next = 0;  // as the engine counts
};

// One turn of a warp's engine: some copies of one lane, or some stores.
void run_engine(Cta& cta, u32 warp);

void call_cp_async(u32 destination, const void* source, int source_bytes);
void call_cp_async_commit_group();
void call_cp_async_wait_group(int pending);
void call_cp_async_mbarrier_arrive_noinc(u32 barrier);
void call_st_async(u32 address, const u32* value, u32 barrier);

}  // namespace smla::core::emulator
