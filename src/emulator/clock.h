// Vector clocks: what has happened before a point of a thread's program.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace smla::core::emulator {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u32 kLanes = 32;     // of a warp
constexpr u32 kMaxWarps = 16;  // of a CTA

// One component a warp, then one for each warp's copy engine, which reads and writes at its own time.
struct Clock {
  std::array<u32, 2 * kMaxWarps> at = {};

  void join(const Clock& other) {
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = std::max(at[i], other.at[i]);
  }
};

struct Clocks {
  Clock seen;    // what happened before
  Clock fenced;  // the part of it that a fence.proxy.async has made visible to the asynchronous proxy

  void join(const Clocks& other) {
    seen.join(other.seen);
    fenced.join(other.fenced);
  }
};

}  // namespace smla::core::emulator
