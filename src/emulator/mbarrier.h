// mbarrier objects: phases, arrivals, and the order that they hand over.
#pragma once

#include <vector>

#include "emulator/clock.h"

namespace smla::core::emulator {

struct Cta;
struct Lane;

struct Mbarrier {
  u32 address = 0;
  u32 count = 0, pending = 0;
  u32 phase = 0;     // completed ones
  Clocks arriving;   // of the arrivals so far
  Clocks completed;  // of the last completed phase
  u32 init_warp = 0, init_clock = 0;
  std::vector<Lane*> waiting = {};
};

// Ends the run unless an mbarrier was set up there; a finding when its init is not ordered before.
Mbarrier& check_mbarrier(u32 address, const char* what);

void arrive(Cta& cta, u32 address, const Clocks& clocks);

void call_mbarrier_init(u32 barrier, int arrivals);
void call_mbarrier_arrive(u32 barrier);
void call_mbarrier_wait_parity(u32 barrier, int parity);

}  // namespace smla::core::emulator
