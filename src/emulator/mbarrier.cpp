#include "emulator/mbarrier.h"

#include "emulator/cluster.h"
#include "emulator/findings.h"
#include "emulator/machine.h"
#include "emulator/scheduler.h"

namespace smla::core::emulator {
namespace {

constexpr std::int64_t kMostBytes = (1 << 20) - 1;  // of a phase, either way

Mbarrier* find(Cta& cta, u32 offset) {
  for (Mbarrier& barrier : cta.mbarriers) {
    if (barrier.offset == offset) return &barrier;
  }
  return nullptr;
}

// Ends the run, by a lane or by an engine.
void end_with(const char* kind, const std::string& text) {
  if (in_lane()) found_fatal(kind, text);
  found_at_end(kind, text);
}

void check_bytes(const Cta& cta, const Mbarrier& barrier) {
  if (barrier.bytes > kMostBytes || barrier.bytes < -kMostBytes) {
    end_with("mbarrier-bytes", fmt::format("the mbarrier at {} counts {} bytes, of {} at most",
                                           shared_place(cta, barrier.offset), barrier.bytes, kMostBytes));
  } else if (barrier.pending == 0 && barrier.bytes < 0) {
    end_with(
        "mbarrier-bytes",
        fmt::format("all have arrived at the mbarrier at {} in phase {}, and {} bytes more have come than "
                    "were expected",
                    shared_place(cta, barrier.offset), barrier.phase, -barrier.bytes));
  }
}

void advance(Mbarrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.count;
  ++barrier.phase;
  if (barrier.byte_count) barrier.arriving.seen.at[barrier.byte_count] = barrier.phase;
  barrier.completed = barrier.arriving;
  for (Lane* lane : barrier.waiting) make_ready(*lane);
  barrier.waiting.clear();
}

}  // namespace

Mbarrier& mbarrier_at(Cta& cta, u32 offset) {
  return *find(cta, offset);
}

Mbarrier& check_mbarrier(Cta& cta, u32 offset, const char* what) {
  Mbarrier* barrier = find(cta, offset);
  if (!barrier) {
    found_fatal("mbarrier-uninitialised", "{} on {}, which no mbarrier.init has set up", what,
                shared_place(cta, offset));
  }
  if (my_warp().component != barrier->init_component &&
      barrier->init_clock > me().clocks.seen.at[barrier->init_component]) {
    found("mbarrier-init-race", "{} on the mbarrier at {} is not ordered after its init", what,
          shared_place(cta, offset));
  }
  barrier->has_peers |= &cta != me().cta;
  return *barrier;
}

void arrive(Cta& cta, Mbarrier& barrier, const Clocks& clocks) {
  if (barrier.pending == 0) {
    end_with(
        "mbarrier-count",
        fmt::format("an arrival too many at the mbarrier at {}: phase {} has its {}, and waits for {} bytes",
                    shared_place(cta, barrier.offset), barrier.phase, barrier.count, barrier.bytes));
    return;
  }
  barrier.arriving.join(clocks);
  --barrier.pending;
  check_bytes(cta, barrier);
  advance(barrier);
}

void complete_bytes(Cta& cta, Mbarrier& barrier, u32 bytes, const Clocks& clocks) {
  barrier.arriving.join(clocks);
  barrier.bytes -= bytes;
  check_bytes(cta, barrier);
  advance(barrier);
}

u32 byte_count_of(Cta& cta, Mbarrier& barrier) {
  u32& counts = cta.cluster->byte_counts;
  if (barrier.byte_count == 0) {
    if (counts == kByteCounts) {
      found_fatal("unsupported", "more than {} mbarriers of a cluster count bytes", kByteCounts);
    }
    barrier.byte_count = kFirstByteCount + counts++;
  }
  return barrier.byte_count;
}

void call_mbarrier_init(u32 address, int arrivals) {
  note_place();
  const u32 offset = own_shared(address, 8, 8, "mbarrier.init");
  if (arrivals < 1) found_fatal("mbarrier-count", "mbarrier.init with {} arrivals", arrivals);
  Lane& lane = me();
  const u32 clock = my_warp().clock, component = my_warp().component, count = static_cast<u32>(arrivals);
  lane.cta->shared.each(offset, 8, [&](SharedWrite& write, SharedReads&, u32) {
    write = {clock, static_cast<u16>(lane.number), static_cast<u8>(component), kWritten | kMbarrier};
  });
  if (find(*lane.cta, offset)) {
    found_fatal("mbarrier-reinitialised", "a second mbarrier.init at {}", shared_place(*lane.cta, offset));
  }
  Mbarrier barrier;
  barrier.offset = offset;
  barrier.count = barrier.pending = count;
  barrier.init_component = component;
  barrier.init_clock = clock;
  lane.cta->mbarriers.push_back(barrier);
}

void call_mbarrier_arrive(u32 address) {
  note_place();
  Cta& cta = *me().cta;
  Mbarrier& barrier = check_mbarrier(cta, own_shared(address, 8, 8, "mbarrier.arrive"), "mbarrier.arrive");
  arrive(cta, barrier, release(me()));
}

void call_mbarrier_arrive_cluster(u32 address) {
  note_place();
  constexpr const char* kWhat = "mbarrier.arrive.shared::cluster";
  Lane& lane = me();
  const SharedPlace place = cluster_shared(address, 8, 8, kWhat);
  Mbarrier& barrier = check_mbarrier(place.cta, place.offset, kWhat);
  if (&place.cta == lane.cta) return arrive(place.cta, barrier, release(lane));
  const Clocks clocks = release_to_peer(lane);
  const u32 component = my_warp().component;
  place.cta.peer_accesses[component] = {clocks.seen.at[component], &lane, lane.place, kWhat};
  arrive(place.cta, barrier, clocks);
}

void call_mbarrier_arrive_expect_tx(u32 address, u32 bytes) {
  note_place();
  constexpr const char* kWhat = "mbarrier.arrive.expect_tx";
  Cta& cta = *me().cta;
  Mbarrier& barrier = check_mbarrier(cta, own_shared(address, 8, 8, kWhat), kWhat);
  byte_count_of(cta, barrier);
  barrier.bytes += bytes;
  arrive(cta, barrier, release(me()));
}

void call_mbarrier_wait_parity(u32 address, int parity) {
  note_place();
  if (parity != 0 && parity != 1) found_fatal("mbarrier-parity", "parity = {}", parity);
  Lane& lane = me();
  const u32 offset = own_shared(address, 8, 8, "mbarrier.try_wait");
  const Mbarrier* barrier = &check_mbarrier(*lane.cta, offset, "mbarrier.try_wait");
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
            parity, shared_place(*lane.cta, offset), barrier->phase, seen);
    }
    lane.wait_barrier = offset;
    lane.wait_parity = parity;
    lane.cta->mbarriers[number].waiting.push_back(&lane);
    block(LaneState::in_mbarrier, "mbarrier.try_wait");
  }
  if (barrier->phase > seen + 1 || barrier->phase > phase_at_start + 1) {
    found("mbarrier-lapped",
          "the mbarrier at {} is in phase {} and this thread has waited for phase {} only: arrivals ran two "
          "phases ahead, so "
          "that the parity is ambiguous",
          shared_place(*lane.cta, offset), barrier->phase, seen);
  }
  lane.phases_seen[number] = barrier->phase;
  acquire(lane, barrier->completed);
}

}  // namespace smla::core::emulator
