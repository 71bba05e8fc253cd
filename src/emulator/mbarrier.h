// mbarrier objects: phases, arrivals, bytes, and the order that they hand over.
#pragma once

#include <vector>

#include "emulator/clock.h"

namespace smla::core::emulator {

struct Cta;
struct Lane;

struct Mbarrier {
  u32 offset = 0;  // in the CTA's shared memory
  u32 count = 0, pending = 0;
  u32 phase = 0;           // completed ones
  std::int64_t bytes = 0;  // expected and not yet there; less than none when they came first
  u32 byte_count = 0;      // component of the clocks, when it has counted bytes
  bool has_peers = false;  // that arrive or send bytes
  Clocks arriving;         // of the arrivals so far
  Clocks completed;        // of the last completed phase
  u32 init_component = 0, init_clock = 0;
  std::vector<Lane*> waiting = {};
};

// Ends the run unless an mbarrier was set up there; a finding when its init is not ordered before the running
// lane.
Mbarrier& check_mbarrier(Cta& cta, u32 offset, const char* what);

// The mbarrier that is known to be there.
Mbarrier& mbarrier_at(Cta& cta, u32 offset);

void arrive(Cta& cta, Mbarrier& barrier, const Clocks& clocks);

// `bytes` more have come, which whoever waits for the phase acquires.
void complete_bytes(Cta& cta, Mbarrier& barrier, u32 bytes, const Clocks& clocks);

// The component of the clocks for bytes that this barrier counts; its time is the phase that they belong to.
u32 byte_count_of(Cta& cta, Mbarrier& barrier);

void call_mbarrier_init(u32 barrier, int arrivals);
void call_mbarrier_arrive(u32 barrier);
void call_mbarrier_arrive_cluster(u32 barrier);
void call_mbarrier_arrive_expect_tx(u32 barrier, u32 bytes);
void call_mbarrier_wait_parity(u32 barrier, int parity);

}  // namespace smla::core::emulator
