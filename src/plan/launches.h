// Which kernels a call launches, with which grids: plain values, computed without a device.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "config/config.h"
#include "generator/kernel_source.h"
#include "plan/lengths.h"
#include "plan/order.h"
#include "plan/workspace.h"
#include "problem/problem.h"

namespace smla::core {

struct Launch {
  KernelRole role = KernelRole::preprocess;
  std::uint32_t grid = 0;          // CTAs, one-dimensional
  std::uint32_t threads = 0;       // a CTA
  std::uint32_t shared_bytes = 0;  // dynamic

  bool operator==(const Launch&) const = default;
};

// In the order of the stream. A fixed array: a call allocates nothing.
struct Launches {
  std::array<Launch, kKernelRoles> launch;
  std::size_t count = 0;

  const Launch* begin() const { return launch.data(); }
  const Launch* end() const { return launch.data() + count; }
};

const char* name_of(KernelRole role);  // "preprocess", "row_scales", ...

// Takes validated lengths. Without batch entries nothing is launched, except that a d_sink is still written.
// Without query tokens preprocess and postprocess run alone, which zero-fills d_kv. With lists that an
// earlier call wrote sort_lists is left out.
Launches choose_launches(const Problem& problem, const Config& config,
                         const std::vector<KernelFacts>& kernels, const Lengths& lengths, const Order& order,
                         const WorkspaceLayout& layout, bool lists_are_ready = false);

}  // namespace smla::core
