// Shuffles and votes. Whoever takes part has used what it loaded from shared memory before.
#pragma once

#include "emulator/clock.h"

namespace smla::core::emulator {

u32 call_shuffle(u32 mask, u32 value, int how, int argument);
u32 call_ballot(u32 mask, int predicate);
int call_all(u32 mask, int predicate);

}  // namespace smla::core::emulator
