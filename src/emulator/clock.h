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

// Components of a clock: one a warp of a cluster, one for each warp's copy engine, which reads and writes at
// its own time, and one for each mbarrier that counts bytes of st.async, whose time is its phase.
constexpr u32 kClusterWarps = 32;
constexpr u32 kFirstEngine = kClusterWarps;
constexpr u32 kFirstByteCount = 2 * kClusterWarps;
constexpr u32 kByteCounts = 32;  // of a cluster
constexpr u32 kComponents = kFirstByteCount + kByteCounts;

struct Clock {
  std::array<u32, kComponents> at = {};

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
