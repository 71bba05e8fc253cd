// From addresses of a kernel's machine code to lines of its text.
#pragma once

#include <string>

#include "emulator/report.h"

namespace smla::core::emulator {

// Replaces the place marks of all findings by "line 1234 (backward_wgmma.cuh) `bar_sync(P_FREE, 256);`", with
// the calls that lead there, innermost first. `text` is the translation unit as KernelSource::text() gives
// it. Needs addr2line; without it the addresses stay.
void resolve_places(Report& report, const std::string& text);

}  // namespace smla::core::emulator
