#include "emulator/shared_memory.h"

#include <cstring>

#include "emulator/findings.h"
#include "emulator/machine.h"

namespace smla::core::emulator {
namespace {

bool is_own(const SharedWrite& write, const Lane& lane) {
  return write.lane == lane.index && write.component < kMaxWarps;
}

// Whether the writing lane itself has executed fence.proxy.async after the write, and no later than `up_to`,
// what the reader has seen of its warp.
bool fenced_by_writer(const Cta& cta, const SharedWrite& write, u32 up_to) {
  const Lane& writer = cta.lanes[write.lane];
  for (u32 i = 0; i < std::min<u32>(writer.fence_count, static_cast<u32>(writer.fences.size())); ++i) {
    if (writer.fences[i] >= write.clock && writer.fences[i] <= up_to) return true;
  }
  return false;
}

std::string writer_of(const SharedWrite& write) {
  return fmt::format("warp {} lane {}", write.lane / kLanes, write.lane % kLanes);
}

// What is wrong with reading a piece in this state, apart from its order.
bool check_readable(const SharedWrite& write, u32 address, const char* what) {
  if (!(write.flags & kWritten)) {
    found("uninitialised", "{} reads {}, which nobody has written", what, shared_place(address));
  } else if (write.flags & kMbarrier) {
    found("mbarrier-read", "{} reads the mbarrier at {}", what, shared_place(address));
  } else if (write.flags & kInFlight) {
    found("read-before-cp.async", "{} reads {} before the cp.async of {} that fills it is complete", what,
          shared_place(address), writer_of(write));
  } else {
    return true;
  }
  return false;
}

}  // namespace

void SharedMemory::restart(u32 dynamic) {
  end_ = kSharedBase + dynamic;
  const u32 granules = (end_ + kStaticReserve) / 16 + 1;
  bytes_.resize(kSharedLimit + kStaticReserve + 16);
  std::memset(bytes_.data() + kSharedBase, 0xff, end_ + kStaticReserve - kSharedBase);
  index_.resize(granules);
  for (u32 i = 0; i < granules; ++i) index_[i] = i;
  writes_.assign(granules, {});
  reads_.assign(granules, {});
  static_arrays_.clear();
}

void SharedMemory::split(u32 granule) {
  const u32 old = index_[granule];
  const SharedWrite write = writes_[old];
  const SharedReads reads = reads_[old];
  index_[granule] = static_cast<u32>(writes_.size()) | kSplit;
  writes_.insert(writes_.end(), 4, write);
  reads_.insert(reads_.end(), 4, reads);
}

u32 SharedMemory::static_array(int key, u32 bytes) {
  if (const auto known = static_arrays_.find(key); known != static_arrays_.end()) return known->second;
  const u32 address = (end_ + 15) / 16 * 16;
  if (address + bytes > kSharedLimit + kStaticReserve) {
    found_fatal("shared-oob", "a static array of {} bytes does not fit behind {} bytes", bytes, end_);
  }
  end_ = address + bytes;
  static_arrays_[key] = address;
  return address;
}

std::string shared_place(u32 address) {
  return fmt::format("shared address 0x{:x} (byte {} of the CTA's)", address, address - kSharedBase);
}

void check_shared_bounds(u32 address, u32 bytes, u32 alignment, const char* what) {
  const u32 end = me().cta->shared.end();
  if (address < kSharedBase || address > end || bytes > end - address) {
    found_fatal("shared-oob", "{} of {} bytes at shared address 0x{:x}, outside [0x{:x}, 0x{:x})", what,
                bytes, address, kSharedBase, end);
  }
  if (address % alignment != 0) {
    found_fatal("misaligned", "{} at shared address 0x{:x}, which is no multiple of {}", what, address,
                alignment);
  }
}

void shared_write(Lane& lane, u32 address, u32 bytes, const char* what, bool in_flight) {
  Cta& cta = *lane.cta;
  const Clock& seen = lane.clocks.seen;
  const Warp& warp = cta.warps[lane.warp];
  cta.shared.each(address, bytes, [&](SharedWrite& write, SharedReads& reads, u32 piece) {
    if (write.flags & kMbarrier)
      found("mbarrier-overwritten", "{} on the mbarrier at {}", what, shared_place(piece));
    if (write.flags & kInFlight) {
      found("write-over-cp.async", "{} to {}, the destination of a cp.async in flight of {}", what,
            shared_place(piece), writer_of(write));
    } else if ((write.flags & kWritten) && !is_own(write, lane) && write.clock > seen.at[write.component]) {
      found("race-WAW", "{} to {} is not ordered after the write of {}", what, shared_place(piece),
            writer_of(write));
    }
    for (u32 reader = 0; reader < cta.warp_count; ++reader) {
      if (reads[reader] <= seen.at[reader]) continue;
      if (reads[reader] & kReadInFlight) {
        found("write-under-wgmma", "{} to {}, which a wgmma in flight of warp {} reads", what,
              shared_place(piece), reader);
      } else if (reader != lane.warp) {
        found("race-WAR", "{} to {} is not ordered after the read of warp {}", what, shared_place(piece),
              reader);
      } else {
        continue;  // the lanes of one warp: README.md, "Not modelled"
      }
      break;
    }
    if (in_flight) {
      write = {warp.engine_clock, static_cast<u16>(lane.index), static_cast<u8>(kMaxWarps + lane.warp),
               kInFlight | kWritten};
    } else {
      write = {warp.clock, static_cast<u16>(lane.index), static_cast<u8>(lane.warp), kWritten};
    }
  });
}

void shared_read(Lane& lane, u32 address, u32 bytes, const char* what) {
  const u32 clock = lane.cta->warps[lane.warp].clock;
  lane.cta->shared.each(address, bytes, [&](SharedWrite& write, SharedReads& reads, u32 piece) {
    if (check_readable(write, piece, what) && !is_own(write, lane) &&
        write.clock > lane.clocks.seen.at[write.component]) {
      found("race-RAW", "{} of {} is not ordered after the write of {}", what, shared_place(piece),
            writer_of(write));
    }
    if (!(reads[lane.warp] & kReadInFlight)) reads[lane.warp] = clock;
  });
}

void shared_read_async(Lane& lane, u32 address, u32 mark, const char* what) {
  const Clocks& clocks = lane.clocks;
  lane.cta->shared.each(address, 16, [&](SharedWrite& write, SharedReads& reads, u32 piece) {
    if (check_readable(write, piece, what)) {
      const u32 seen = clocks.seen.at[write.component];
      if (write.clock > seen) {
        found("race-RAW", "{} of {} is not ordered after the write of {}", what, shared_place(piece),
              writer_of(write));
      } else if (write.clock > clocks.fenced.at[write.component] &&
                 (write.component >= kMaxWarps || !fenced_by_writer(*lane.cta, write, seen))) {
        found("no-proxy-fence",
              "{} of {}, which {} wrote through the generic proxy, with no fence.proxy.async since", what,
              shared_place(piece), writer_of(write));
      }
    }
    reads[lane.warp] = mark;
  });
}

void* call_dynamic_shared() {
  return me().cta->shared.data(kSharedBase);
}

void* call_static_shared(int line, int bytes) {
  note_place();
  SharedMemory& shared = me().cta->shared;
  return shared.data(shared.static_array(line, static_cast<u32>(bytes)));
}

u32 call_shared_address(const void* pointer) {
  return me().cta->shared.address_of(pointer);
}

void call_st_shared(u32 address, const void* value, int bytes) {
  note_place();
  const u32 n = static_cast<u32>(bytes);
  check_shared_bounds(address, n, n, "st.shared");
  shared_write(me(), address, n, "st.shared");
  std::memcpy(me().cta->shared.data(address), value, n);
}

void call_ld_shared(void* value, u32 address, int bytes) {
  note_place();
  const u32 n = static_cast<u32>(bytes);
  check_shared_bounds(address, n, n, "ld.shared");
  shared_read(me(), address, n, "ld.shared");
  std::memcpy(value, me().cta->shared.data(address), n);
}

// Atomics do not race with one another: a word that both sides touched by atomics alone is left as its first
// writer's.
u32 call_atom_shared_or(u32 address, u32 bits) {
  note_place();
  check_shared_bounds(address, 4, 4, "atom.shared");
  Lane& lane = me();
  lane.cta->shared.each(address, 4, [&](SharedWrite& write, SharedReads&, u32 piece) {
    if (!(write.flags & kAtomic)) {
      shared_read(lane, piece, 4, "atom.shared");
      shared_write(lane, piece, 4, "atom.shared");
    }
    write = {lane.cta->warps[lane.warp].clock, static_cast<u16>(lane.index), static_cast<u8>(lane.warp),
             kWritten | kAtomic};
  });
  u32 old;
  u8* word = lane.cta->shared.data(address);
  std::memcpy(&old, word, 4);
  const u32 now = old | bits;
  std::memcpy(word, &now, 4);
  return old;
}

}  // namespace smla::core::emulator
