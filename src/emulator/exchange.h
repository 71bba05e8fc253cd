// Shuffles and ballots.
#pragma once

#include "emulator/clock.h"

namespace smla::core::emulator {

u32 call_shuffle(u32 mask, u32 value, int how, int argument);
u32 call_ballot(u32 mask, int predicate);

}  // namespace smla::core::emulator
