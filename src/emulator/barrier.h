// Named barriers, setmaxnreg, fence.proxy.async and __syncwarp.
#pragma once

#include "emulator/clock.h"

namespace smla::core::emulator {

void call_bar(int barrier, int threads, int waits);
void call_setmaxnreg(int increase, int registers);
void call_fence_proxy_async();
void call_syncwarp(u32 mask);

}  // namespace smla::core::emulator
