#include "emulator/launch.h"

#include <ctime>
#include <mutex>

#include "base/error.h"
#include "emulator/crash.h"
#include "emulator/machine.h"
#include "emulator/scheduler.h"

namespace smla::core::emulator {
namespace {

constexpr u32 kMostClusterCtas = 8;  // that every GPU with clusters runs

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void check(const Grid& grid, const LaunchOptions& options) {
  if (grid.threads == 0 || grid.threads % kLanes != 0 || grid.threads > kMaxWarps * kLanes) {
    fail(Status::invalid_argument,
         "the emulator runs CTAs of 32 to {} threads, a multiple of 32, and not of {}", kMaxWarps * kLanes,
         grid.threads);
  }
  if (grid.shared_bytes > kSharedLimit - kSharedBase) {
    fail(Status::invalid_argument, "{} bytes of shared memory are more than {}", grid.shared_bytes,
         kSharedLimit - kSharedBase);
  }
  if (grid.cluster < 1 || grid.cluster > kMostClusterCtas ||
      grid.cluster * grid.threads > kClusterWarps * kLanes) {
    fail(Status::invalid_argument,
         "the emulator runs clusters of 1 to {} CTAs with {} threads together, and not {} of {}",
         kMostClusterCtas, kClusterWarps * kLanes, grid.cluster, grid.threads);
  }
  if (grid.ctas % grid.cluster != 0) {
    fail(Status::invalid_argument, "a grid of {} CTAs is no multiple of a cluster of {}", grid.ctas,
         grid.cluster);
  }
  if (options.virtual_sms < 1 || options.virtual_sms > 8) {
    fail(Status::invalid_argument, "virtual_sms = {} is outside 1 .. 8", options.virtual_sms);
  }
}

}  // namespace

Machine& machine() {
  static Machine instance;
  return instance;
}

u64 Machine::random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state * 0x2545f4914f6cdd1dull >> 16;
}

void launch(const Grid& grid, const LaunchOptions& options, const std::function<void()>& kernel,
            Report& report) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  check(grid, options);
  Machine& m = machine();
  const double began = cpu_seconds();
  m.options = options;
  m.report = &report;
  m.reported.clear();
  m.random_state = options.seed * 0x9e3779b97f4a7c15ull + 0x1234567;
  for (int i = 0; i < 8; ++i) m.random();
  m.stopped = false;
  ++m.epoch;
  m.kernel = &kernel;
  m.calls.block_dim = {grid.threads, 1, 1};
  m.calls.grid_dim = {grid.ctas, 1, 1};
  const u32 ctas = ctas_in_flight(options.virtual_sms, grid.cluster);
  m.clusters.assign(ctas / grid.cluster, {});
  while (m.slots.size() < ctas) m.slots.push_back(std::make_unique<Cta>());
  auto slot = m.slots.begin();
  for (Cluster& cluster : m.clusters) {
    for (u32 rank = 0; rank < grid.cluster; ++rank) {
      Cta& cta = **slot++;
      cluster.ctas.push_back(&cta);
      if (cta.lane_capacity < grid.threads) {
        cta.lanes = std::make_unique<Lane[]>(grid.threads);
        cta.lane_capacity = grid.threads;
      }
    }
  }
  {
    const CrashGuard guard;
    if (sigsetjmp(m.crash, 1) == 0) run_grid(grid);
  }
  m.calls.thread = nullptr;
  ++report.launches;
  report.cpu_seconds += cpu_seconds() - began;
}

}  // namespace smla::core::emulator
