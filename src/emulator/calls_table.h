// The emulator's side of device/calls.h.
#pragma once

#include "emulator/device/calls.h"

namespace smla::core::emulator {

// The table of this process, which compiled kernels are attached to.
EmulatorCalls* calls_table();

}  // namespace smla::core::emulator
