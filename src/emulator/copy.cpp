#include "emulator/copy.h"

#include <cstring>

#include "emulator/cluster.h"
#include "emulator/findings.h"
#include "emulator/global_memory.h"
#include "emulator/machine.h"
#include "emulator/scheduler.h"

namespace smla::core::emulator {
namespace {

void enqueue(Lane& lane, Copy copy) {
  lane.copies.queued.push_back(std::move(copy));
  ++lane.cta->warps[lane.warp].queued_copies;
}

// The copies that have landed, of groups before `group`, are complete at the engine's time `clock`.
void complete(Lane& lane, u32 group, u32 clock) {
  std::erase_if(lane.copies.landed, [&](const CopyQueue::Landed& landed) {
    if (landed.group >= group) return false;
    lane.cta->shared.each(landed.address, 16, [&](SharedWrite& write, SharedReads&, u32) {
      if ((write.flags & kInFlight) && !(write.flags & kAsyncStored) && write.lane == lane.number) {
        write.flags = static_cast<u8>(write.flags & ~kInFlight);
        write.clock = clock;
      }
    });
    return true;
  });
}

void execute_next(Lane& lane) {
  Copy copy = std::move(lane.copies.queued.front());
  lane.copies.queued.pop_front();
  --lane.cta->warps[lane.warp].queued_copies;
  switch (copy.kind) {
    case Copy::Kind::copy: {
      u8* target = lane.cta->shared.data(copy.destination);
      std::memset(target, 0, 16);
      if (copy.source_bytes > 0) std::memcpy(target, copy.source, copy.source_bytes);
      lane.copies.landed.push_back({copy.destination, lane.copies.group_of_next});
      break;
    }
    case Copy::Kind::arrive:
      complete(lane, ~0u, copy.clock);
      arrive(*lane.cta, mbarrier_at(*lane.cta, copy.barrier), *copy.clocks);
      break;
    case Copy::Kind::commit:
      ++lane.copies.group_of_next;
      break;
  }
}

// Data and bytes of the count come together.
void deliver(AsyncStore store) {
  Cta& target = *store.target;
  Mbarrier& barrier = mbarrier_at(target, store.barrier);
  if (target.live_lanes == 0) {
    found(
        "peer-exited",
        fmt::format("a st.async comes to {}, and the CTA has ended", shared_place(target, store.destination)),
        store.place);
    return;
  }
  const u32 component = byte_count_of(target, barrier), phase = barrier.phase + 1;
  target.shared.each(store.destination, 16, [&](SharedWrite& write, SharedReads&, u32) {
    if ((write.flags & kInFlight) && (write.flags & kAsyncStored) && write.lane == store.lane)
      write = {phase, static_cast<u16>(store.lane), static_cast<u8>(component), kWritten | kAsyncStored};
  });
  std::memcpy(target.shared.data(store.destination), store.value.data(), 16);
  const Lane& lane = lane_of_number(*target.cluster, store.lane);
  if (&target != lane.cta) target.peer_accesses[component] = {phase, &lane, store.place, "st.async"};
  complete_bytes(target, barrier, 16, store.clocks);
}

void deliver_some(std::vector<AsyncStore>& stores) {
  u64 most = 1 + machine().random() % 16;
  while (most-- > 0 && !stores.empty()) {
    std::swap(stores[machine().random() % stores.size()], stores.back());
    AsyncStore store = std::move(stores.back());
    stores.pop_back();
    deliver(std::move(store));
  }
}

}  // namespace

void run_engine(Cta& cta, u32 warp) {
  std::vector<AsyncStore>& stores = cta.warps[warp].async_stores;
  if (!stores.empty() && (cta.warps[warp].queued_copies == 0 || machine().random() % 2)) {
    deliver_some(stores);
    return;
  }
  const u32 first = static_cast<u32>(machine().random()) % kLanes;
  for (u32 i = 0; i < kLanes; ++i) {
    Lane& lane = lane_of(cta, warp, (first + i) % kLanes);
    if (lane.copies.queued.empty()) continue;
    u64 most = 1 + machine().random() % 48;
    while (most-- > 0 && !lane.copies.queued.empty()) execute_next(lane);
    return;
  }
}

void call_cp_async(u32 address, const void* source, int source_bytes) {
  note_place();
  const u32 destination = own_shared(address, 16, 16, "cp.async");
  if (source_bytes < 0 || source_bytes > 16) found_fatal("cp.async-size", "src-size = {}", source_bytes);
  const u32 bytes = static_cast<u32>(source_bytes);
  if (bytes > 0) check_global_read(source, bytes, 16, GlobalUse::read, "cp.async");
  shared_write(*me().cta, me(), destination, 16, "cp.async", kInFlight);
  std::memset(me().cta->shared.data(destination), 0xff, 16);
  ++machine().report->copies;
  enqueue(me(),
          {.kind = Copy::Kind::copy, .destination = destination, .source_bytes = bytes, .source = source});
}

void call_cp_async_commit_group() {
  note_place();
  ++me().copies.groups_committed;
  enqueue(me(), {.kind = Copy::Kind::commit});
}

void call_cp_async_wait_group(int pending) {
  note_place();
  Lane& lane = me();
  const u32 committed = lane.copies.groups_committed, open = static_cast<u32>(pending);
  const u32 done = committed > open ? committed - open : 0;
  while (lane.copies.group_of_next < done) execute_next(lane);
  Warp& warp = my_warp();
  complete(lane, done, warp.engine_clock);
  lane.clocks.seen.at[warp.engine()] = warp.engine_clock++;
  warp.clocks_differ = true;
}

// Hands on the copies and what the thread had acquired, not the thread's own plain accesses: it arrives at
// its own time.
void call_cp_async_mbarrier_arrive_noinc(u32 address) {
  note_place();
  const u32 barrier = own_shared(address, 8, 8, "cp.async.mbarrier.arrive");
  check_mbarrier(*me().cta, barrier, "cp.async.mbarrier.arrive");
  Lane& lane = me();
  Warp& warp = my_warp();
  auto clocks = std::make_unique<Clocks>(lane.clocks);
  clocks->seen.at[warp.component] = 0;
  const u32 clock = warp.engine_clock++;
  clocks->seen.at[warp.engine()] = clock;
  enqueue(lane,
          {.kind = Copy::Kind::arrive, .barrier = barrier, .clock = clock, .clocks = std::move(clocks)});
}

void call_st_async(u32 address, const u32* value, u32 barrier_address) {
  note_place();
  Lane& lane = me();
  const auto [cta, destination] = cluster_shared(address, 16, 16, "st.async");
  const SharedPlace barrier = cluster_shared(barrier_address, 8, 8, "st.async");
  if (&barrier.cta != &cta) {
    found_fatal("shared-rank", "st.async to {}, and its mbarrier is of another CTA, at {}",
                shared_place(cta, destination), shared_place(barrier.cta, barrier.offset));
  }
  byte_count_of(cta, check_mbarrier(cta, barrier.offset, "st.async"));
  shared_write(cta, lane, destination, 16, "st.async", kInFlight | kAsyncStored);
  std::memset(cta.shared.data(destination), 0xff, 16);
  ++machine().report->copies;
  AsyncStore& store = my_warp().async_stores.emplace_back();
  store.target = &cta;
  store.destination = destination;
  store.barrier = barrier.offset;
  std::memcpy(store.value.data(), value, 16);
  store.lane = lane.number;
  store.clocks = &cta == lane.cta ? release(lane) : release_to_peer(lane);
  store.place = lane.place;
}

}  // namespace smla::core::emulator
