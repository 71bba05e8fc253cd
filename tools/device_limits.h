// What the GPU at hand can do of each thing that the backward is made of, measured by kernels that do nothing
// else (device_limits.cuh), and the least time of a call that follows from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "config/arch.h"
#include "config/config.h"
#include "driver/device.h"
#include "generator/kernel_source.h"
#include "problem/problem.h"
#include "timing.h"

namespace smla::core {

// One kernel of device_limits.cuh: it handles `tiles` tiles of 64 rows of 576 columns an SM, or for the wgmma
// ones does as many steps. Two of them at once are counted in the bytes of the reductions.
struct LimitKernel {
  std::string_view name;         // in JSON and, behind smla_limit_, the symbol
  std::string_view description;  // for people
  std::string_view call;         // in device_limits.cuh
  int threads = 0;
  int shared_bytes = 0;  // dynamic
  int row_bytes = 0;     // of the table that it adds to or copies from; 0: it needs none
  int tiles = 0;
  double amount = 0;  // of a tile: bytes, or for the wgmma kernels floating-point operations
};

// Those that the arch can run: fp32 and fp16 reductions from sm_90 on, wgmma on sm_90a alone.
std::vector<LimitKernel> limit_kernels(const Arch& arch);

// The text of device_limits.cuh with an entry for each of them; it needs neither a Problem nor a Config.
KernelSource limits_source(const Arch& arch);

struct MeasuredLimit {
  LimitKernel kernel;
  std::int64_t rows = 0;  // of the table; 0: none
  int multiprocessors = 0;
  Timing timing;  // of one launch over all SMs

  double per_sm(double milliseconds) const {
    return kernel.amount * kernel.tiles / milliseconds * 1e3;
  }  // a second
  double in_all(double milliseconds) const { return per_sm(milliseconds) * multiprocessors; }
  double tile_microseconds(double milliseconds) const { return milliseconds * 1e3 / kernel.tiles; }
};

// Compiles device_limits.cuh for the device and measures each kernel, the ones with a table at every number
// of rows in `tables` (random rows). About 0.7 s each, in the current context. Errors: those of compile() and
// the driver.
std::vector<MeasuredLimit> measure_limits(const DeviceProperties& device,
                                          const std::vector<std::int64_t>& tables);

// Milliseconds below which a call cannot come on a GPU with these limits: its CTAs gather and reduce `tiles`
// tiles (floor.h's reduced_tiles) at the best rate measured, and the schedule wgmma multiplies 64 rows of q
// with each. The two may overlap, so it is the longer of them. Launches, the pre-pass and the tail are left
// out.
struct LeastTime {
  struct Part {
    double memory = 0, matrices = 0;
    double both() const { return memory > matrices ? memory : matrices; }
  };
  Part cool, steady;
};

// Nothing when the limits lack what the call does.
std::optional<LeastTime> least_time(const Problem& problem, const Config& config, double tiles,
                                    const std::vector<MeasuredLimit>& limits);

}  // namespace smla::core
