// One kernel on the emulator: a function that every thread of the grid calls.
#pragma once

#include <cstdint>
#include <functional>

#include "emulator/report.h"

namespace smla::core::emulator {

struct LaunchOptions {
  std::uint64_t seed = 1;  // of the order in which warps, copies and CTAs run; the same seed is the same run
  std::uint32_t virtual_sms = 2;          // CTAs side by side, 1 to 8, in whole clusters
  std::uint64_t step_limit = 50'000'000;  // of the scheduler; beyond it the kernel counts as endless
  std::size_t most_findings = 20;
};

struct Grid {
  std::uint32_t ctas = 0;
  std::uint32_t threads = 0;       // a CTA: a multiple of 32, 512 at most
  std::uint32_t shared_bytes = 0;  // dynamic
  std::uint32_t cluster = 1;       // neighbouring CTAs that run at the same time
};

// CTAs that run side by side: whole clusters, one at least.
inline std::uint32_t ctas_in_flight(std::uint32_t virtual_sms, std::uint32_t cluster) {
  return virtual_sms < cluster ? cluster : virtual_sms / cluster * cluster;
}

// Runs `kernel` in every thread and appends to `report`. One launch at a time in a process; others wait.
// Findings name places as "[[0x...]]" until resolve_places. Error invalid_argument for a grid that the
// emulator cannot run.
void launch(const Grid& grid, const LaunchOptions& options, const std::function<void()>& kernel,
            Report& report);

}  // namespace smla::core::emulator
