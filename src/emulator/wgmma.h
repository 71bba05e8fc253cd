// wgmma: matrix products that run on their own until a wait_group.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "emulator/clock.h"

namespace smla::core::emulator {

// Registers that wgmmas in flight own: their values live here, and the registers hold kPoison.
struct Accumulator {
  std::array<float*, kLanes> registers = {};
  u32 columns = 0;
  std::vector<float> values;  // 16 rows of the warp
  int pending = 0;            // wgmmas in flight on it
};

struct WgmmaInFlight {
  Accumulator* accumulator;
  u32 group;
  u64 a, b;
  u32 columns;
  bool scale_d, trans_a, trans_b, is_bf16;
  bool a_in_registers;
  bool executed = false;
  std::size_t loads_before = 0;  // runs of the warp's unused loads
  std::array<const u32*, kLanes> a_registers = {};
  std::array<std::array<u32, 4>, kLanes> a_values = {};
  const void* place = nullptr;
};

struct WgmmaState {
  std::deque<WgmmaInFlight> operations;
  std::vector<std::unique_ptr<Accumulator>> accumulators;
  u32 group = 0;        // committed groups
  bool fenced = false;  // wgmma.fence since the last wait_group that waited for something
  std::size_t count = 0;
  std::map<const void*, u32>
      kept;  // accumulators of lane 0 that carry a sum from one wait to the next: registers

  bool in_flight() const { return !operations.empty(); }
};

void call_wgmma(float* d, int n, const u32* a_fragment, unsigned long long a, unsigned long long b,
                int scale_d, int trans_a, int trans_b, int is_bf16);
void call_wgmma_fence();
void call_wgmma_commit_group();
void call_wgmma_wait_group(int pending);

}  // namespace smla::core::emulator
