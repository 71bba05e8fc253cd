#include "emulator/mbarrier.h"

#include "emulator/findings.h"
#include "emulator/machine.h"
#include "emulator/scheduler.h"

namespace smla::core::emulator {
namespace {

Mbarrier* find(Cta& cta, u32 address) {
  for (Mbarrier& barrier : cta.mbarriers) {
    if (barrier.address == address) return &barrier;
  }
  return nullptr;
}

}  // namespace

Mbarrier& check_mbarrier(u32 address, const char* what) {
  check_shared_bounds(address, 8, 8, what);
  Mbarrier* barrier = find(*me().cta, address);
  if (!barrier) {
    found_fatal("mbarrier-uninitialised", "{} on {}, which no mbarrier.init has set up", what,
                shared_place(address));
  }
  if (me().warp != barrier->init_warp && barrier->init_clock > me().clocks.seen.at[barrier->init_warp]) {
    found("mbarrier-init-race", "{} on the mbarrier at {} is not ordered after its init", what,
          shared_place(address));
  }
  return *barrier;
}

void arrive(Cta& cta, u32 address, const Clocks& clocks) {
  Mbarrier& barrier = *find(cta, address);
  barrier.arriving.join(clocks);
  if (--barrier.pending > 0) return;
  barrier.pending = barrier.count;
  ++barrier.phase;
  barrier.completed = barrier.arriving;
  for (Lane* lane : barrier.waiting) make_ready(*lane);
  barrier.waiting.clear();
}

void call_mbarrier_init(u32 address, int arrivals) {
  note_place();
  check_shared_bounds(address, 8, 8, "mbarrier.init");
  if (arrivals < 1) found_fatal("mbarrier-count", "mbarrier.init with {} arrivals", arrivals);
  Lane& lane = me();
  const u32 clock = my_warp().clock, count = static_cast<u32>(arrivals);
  lane.cta->shared.each(address, 8, [&](SharedWrite& write, SharedReads&, u32) {
    write = {clock, static_cast<u16>(lane.index), static_cast<u8>(lane.warp), kWritten | kMbarrier};
  });
  if (find(*lane.cta, address)) {
    found_fatal("mbarrier-reinitialised", "a second mbarrier.init at {}", shared_place(address));
  }
  Mbarrier barrier;
  barrier.address = address;
  barrier.count = barrier.pending = count;
  barrier.init_warp = lane.warp;
  barrier.init_clock = clock;
  lane.cta->mbarriers.push_back(barrier);
}

void call_mbarrier_arrive(u32 address) {
  note_place();
  check_mbarrier(address, "mbarrier.arrive");
  arrive(*me().cta, address, release(me()));
}

void call_mbarrier_wait_parity(u32 address, int parity) {
  note_place();
  if (parity != 0 && parity != 1) found_fatal("mbarrier-parity", "parity = {}", parity);
  const Mbarrier* barrier = &check_mbarrier(address, "mbarrier.try_wait");
  Lane& lane = me();
  const auto number = static_cast<std::size_t>(barrier - lane.cta->mbarriers.data());
  if (lane.phases_seen.size() <= number) lane.phases_seen.resize(number + 1, 0);
  const u32 seen = lane.phases_seen[number];
  const u32 phase_at_start = barrier->phase;
  if (machine().random() % 4 == 0) yield();
  for (;;) {
    barrier = &lane.cta->mbarriers[number];  // others may have been set up meanwhile
    if (static_cast<int>(barrier->phase & 1) != parity) break;
    if (barrier->phase > seen + 1) {
      found("mbarrier-lapped",
            "waits with parity {} on the mbarrier at {}, whose phase {} has begun, while this thread has "
            "waited for phase {} "
            "only: the phase is over and the parity says it is not",
            parity, shared_place(address), barrier->phase, seen);
    }
    lane.wait_barrier = address;
    lane.wait_parity = parity;
    lane.cta->mbarriers[number].waiting.push_back(&lane);
    block(LaneState::in_mbarrier, "mbarrier.try_wait");
  }
  if (barrier->phase > seen + 1 || barrier->phase > phase_at_start + 1) {
    found("mbarrier-lapped",
          "the mbarrier at {} is in phase {} and this thread has waited for phase {} only: arrivals ran two "
          "phases ahead, so "
          "that the parity is ambiguous",
          shared_place(address), barrier->phase, seen);
  }
  lane.phases_seen[number] = barrier->phase;
  acquire(lane, barrier->completed);
}

}  // namespace smla::core::emulator
