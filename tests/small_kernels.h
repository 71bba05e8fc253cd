// Kernels of a few lines, for tests of the emulator: functions of this program that call its table.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "cpu_kernels.h"
#include "emulator/calls_table.h"
#include "emulator/launch.h"

namespace smla_test {

using namespace smla::core::emulator;

inline EmulatorCalls& ptx() {
  return *calls_table();
}
inline int thread() {
  return static_cast<int>(ptx().thread->thread_index.x);
}

constexpr u32 kBase = 1024;  // of dynamic shared memory

// What the emulator says of a kernel, over several seeds: the kinds of its findings.
inline std::set<std::string> findings_of(const Grid& grid, const std::function<void()>& kernel) {
  require_emulator();
  std::set<std::string> kinds;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Report report;
    launch(grid, {.seed = seed, .virtual_sms = 2, .step_limit = 100'000, .most_findings = 20}, kernel,
           report);
    for (const Finding& finding : report.findings) kinds.insert(finding.kind);
  }
  return kinds;
}

using Kinds = std::set<std::string>;

inline void store(u32 address, u32 value) {
  ptx().st_shared(address, &value, 4);
}
inline u32 load(u32 address) {
  u32 value;
  ptx().ld_shared(&value, address, 4);
  return value;
}

}  // namespace smla_test
