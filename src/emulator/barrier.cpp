#include "emulator/barrier.h"

#include "emulator/scheduler.h"

namespace smla::core::emulator {
namespace {

void check_bar_arguments(int barrier, int threads) {
  const int threads_of_cta = static_cast<int>(me().cta->warp_count * kLanes);
  if (barrier < 0 || barrier >= static_cast<int>(kNamedBarriers) || threads <= 0 || threads % 32 != 0 ||
      threads > threads_of_cta) {
    found_fatal("bar-arguments", "barrier {} with {} threads, in a CTA of {}", barrier, threads,
                threads_of_cta);
  }
}

void wait_at(NamedBarrier& bar, Warp& warp, const char* what) {
  Cta& cta = *me().cta;
  bar.waiting.push_back(&warp);
  for (u32 i = 0; i < kLanes; ++i) {
    Lane& lane = lane_of(cta, warp.index, i);
    *static_cast<bool*>(warp.meeting.argument[i]) = true;
    lane.state = LaneState::in_barrier;
    lane.waits_in = what;
  }
  warp.ready = 0;
}

void pass(Cta& cta, const Warp& warp, const Clocks& clocks) {
  for (u32 i = 0; i < kLanes; ++i) lane_of(cta, warp.index, i).clocks.join(clocks);
}

}  // namespace

void call_bar(int barrier, int threads, int waits) {
  note_place();
  check_bar_arguments(barrier, threads);
  const char* what = waits ? "bar.sync" : "bar.arrive";
  Lane& lane = me();
  lane.wait_barrier = static_cast<u32>(barrier);
  bool has_to_wait = false;
  const u64 key = static_cast<u64>(barrier) << 32 | static_cast<u64>(threads) << 1 | static_cast<u64>(waits);
  collective(kBar, key, &has_to_wait, what, [&](Warp& warp) {
    Cta& cta = *me().cta;
    NamedBarrier& bar = cta.barriers[static_cast<u32>(barrier)];
    if (bar.arrived && bar.expected != threads) {
      found_fatal("bar-count", "{} of barrier {} with {} threads, and others gave {}", what, barrier, threads,
                  bar.expected);
    }
    bar.expected = threads;
    if (bar.warps >> warp.index & 1) {
      found("bar-twice", "warp {} comes to barrier {} a second time before the barrier has completed",
            warp.index, barrier);
    }
    bar.warps |= 1u << warp.index;
    bar.arrived += static_cast<int>(kLanes);
    bar.clocks.join(release(me()));
    if (bar.arrived >= threads) {
      for (const Warp* waiting : bar.waiting) {
        pass(cta, *waiting, bar.clocks);
        for (u32 i = 0; i < kLanes; ++i) make_ready(lane_of(cta, waiting->index, i));
      }
      if (waits) pass(cta, warp, bar.clocks);
      bar = {};
    } else if (waits) {
      wait_at(bar, warp, what);
    }
  });
  if (has_to_wait && lane.state == LaneState::in_barrier) lane.fiber.leave();
}

void call_setmaxnreg(int increase, int registers) {
  note_place();
  if (registers % 8 != 0 || registers < 24 || registers > 256) {
    found_fatal("setmaxnreg", "a register count of {}", registers);
  }
  const u32 wanted = static_cast<u32>(registers);
  for (;;) {
    bool got = false;
    collective(kSetmaxnreg, static_cast<u64>(registers * 2 + increase), &got, "setmaxnreg", [&](Warp& warp) {
      Cta& cta = *me().cta;
      if (increase ? wanted < warp.registers : wanted > warp.registers) {
        found_fatal("setmaxnreg", "{} to {} registers from the {} that the warp holds",
                    increase ? "inc" : "dec", wanted, warp.registers);
      }
      const bool enough = !increase || (wanted - warp.registers) * kLanes <= cta.registers_free;
      for (void* argument : warp.meeting.argument) *static_cast<bool*>(argument) = enough;
      if (enough) {
        cta.registers_free -= (wanted - warp.registers) * kLanes;  // modulo 2^32: a dec gives back
        warp.registers = wanted;
        for (u32 i = 0; i < cta.warp_count * kLanes; ++i) {
          if (cta.lanes[i].state == LaneState::in_setmaxnreg) make_ready(cta.lanes[i]);
        }
      } else {
        for (u32 i = 0; i < kLanes; ++i) {
          Lane& lane = lane_of(cta, warp.index, i);
          lane.state = LaneState::in_setmaxnreg;
          lane.waits_in = "setmaxnreg.inc, for registers that nobody has given back";
        }
        warp.ready = 0;
      }
    });
    if (got) return;
    if (me().state == LaneState::in_setmaxnreg) me().fiber.leave();
  }
}

void call_fence_proxy_async() {
  note_place();
  Lane& lane = me();
  Warp& warp = my_warp();
  lane.clocks.fenced.join(lane.clocks.seen);
  lane.fences[lane.fence_count++ % lane.fences.size()] = warp.clock++;
  warp.clocks_differ = true;
}

void call_syncwarp(u32 mask) {
  note_place();
  if (mask != ~0u) found_fatal("unsupported", "__syncwarp of the lanes {:08x} alone", mask);
  collective(kSyncwarp, 0, nullptr, "__syncwarp", [](Warp&) {});
}

}  // namespace smla::core::emulator
