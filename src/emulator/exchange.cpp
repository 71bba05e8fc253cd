#include "emulator/exchange.h"

#include "emulator/device/calls.h"
#include "emulator/scheduler.h"

namespace smla::core::emulator {
namespace {

struct Exchange {
  u32 value;
  u32 result;
  int argument;
};

Exchange& of_lane(const Warp& warp, int lane) {
  return *static_cast<Exchange*>(warp.meeting.argument[static_cast<u32>(lane)]);
}

int source_lane(int how, int lane, int argument) {
  const int source = how == kShuffleXor     ? lane ^ argument
                     : how == kShuffleIndex ? argument & 31
                     : how == kShuffleUp    ? lane - argument
                                            : lane + argument;
  return source < 0 || source > 31 ? lane : source;
}

void check_mask(u32 mask, const char* what) {
  if (mask != ~0u) found_fatal("unsupported", "{} of the lanes {:08x} alone", what, mask);
}

// Who says yes.
u32 vote(Operation operation, u32 mask, int predicate, const char* what) {
  check_mask(mask, what);
  Exchange mine = {predicate != 0 ? 1u : 0u, 0, 0};
  collective(operation, 0, &mine, what, [&](Warp& warp) {
    u32 votes = 0;
    for (int lane = 0; lane < 32; ++lane) votes |= of_lane(warp, lane).value << lane;
    for (int lane = 0; lane < 32; ++lane) of_lane(warp, lane).result = votes;
    use_loads(warp);
  });
  return mine.result;
}

}  // namespace

u32 call_shuffle(u32 mask, u32 value, int how, int argument) {
  note_place();
  check_mask(mask, "shfl.sync");
  Exchange mine = {value, value, argument};
  collective(kShuffle, static_cast<u64>(how), &mine, "shfl.sync", [&](Warp& warp) {
    for (int lane = 0; lane < 32; ++lane) {
      Exchange& to = of_lane(warp, lane);
      to.result = of_lane(warp, source_lane(how, lane, to.argument)).value;
    }
    use_loads(warp);
  });
  return mine.result;
}

u32 call_ballot(u32 mask, int predicate) {
  note_place();
  return vote(kBallot, mask, predicate, "vote.ballot");
}

int call_all(u32 mask, int predicate) {
  note_place();
  return vote(kAll, mask, predicate, "vote.all") == ~0u;
}

}  // namespace smla::core::emulator
