#include "emulator/shared_memory.h"

#include <cstring>

#include "emulator/findings.h"
#include "emulator/machine.h"
#include "emulator/scheduler.h"

namespace smla::core::emulator {
namespace {

bool is_own(const SharedWrite& write, const Lane& lane) {
  return write.lane == lane.number && write.component < kClusterWarps;
}

// Whether the writing lane itself has executed fence.proxy.async after the write, and no later than `up_to`,
// what the reader has seen of its warp.
bool fenced_by_writer(const Cta& cta, const SharedWrite& write, u32 up_to) {
  const Lane& writer = lane_of_number(*cta.cluster, write.lane);
  for (u32 i = 0; i < std::min<u32>(writer.fence_count, static_cast<u32>(writer.fences.size())); ++i) {
    if (writer.fences[i] >= write.clock && writer.fences[i] <= up_to) return true;
  }
  return false;
}

std::string writer_of(const Cta& cta, const SharedWrite& write) {
  const Lane& writer = lane_of_number(*cta.cluster, write.lane);
  return fmt::format("warp {} lane {}{}", writer.warp, writer.lane, of_cta(*writer.cta));
}

const char* instruction_of(const SharedWrite& write) {
  return write.flags & kAsyncStored ? "st.async" : "cp.async";
}

// What is wrong with reading a piece in this state, apart from its order.
bool check_readable(const Cta& cta, const SharedWrite& write, u32 offset, const char* what) {
  if (!(write.flags & kWritten)) {
    found("uninitialised", "{} reads {}, which nobody has written", what, shared_place(cta, offset));
  } else if (write.flags & kMbarrier) {
    found("mbarrier-read", "{} reads the mbarrier at {}", what, shared_place(cta, offset));
  } else if (write.flags & kInFlight) {
    found(fmt::format("read-before-{}", instruction_of(write)),
          fmt::format("{} reads {} before the {} of {} that fills it is complete", what,
                      shared_place(cta, offset), instruction_of(write), writer_of(cta, write)));
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

std::string of_cta(const Cta& cta) {
  return in_lane() && me().cta == &cta ? "" : fmt::format(" of CTA {}", cta.index);
}

std::string shared_place(const Cta& cta, u32 offset) {
  const std::string owner = in_lane() && me().cta == &cta ? "the CTA" : fmt::format("CTA {}", cta.index);
  return fmt::format("shared address 0x{:x} (byte {} of {}'s)", cta.rank << kRankShift | offset,
                     offset - kSharedBase, owner);
}

void check_shared_bounds(const Cta& cta, u32 offset, u32 bytes, u32 alignment, const char* what) {
  const u32 end = cta.shared.end(), rank = cta.rank << kRankShift;
  if (offset < kSharedBase || offset > end || bytes > end - offset) {
    found_fatal("shared-oob", "{} of {} bytes at shared address 0x{:x}, outside [0x{:x}, 0x{:x})", what,
                bytes, rank | offset, rank | kSharedBase, rank | end);
  }
  if (offset % alignment != 0) {
    found_fatal("misaligned", "{} at shared address 0x{:x}, which is no multiple of {}", what, rank | offset,
                alignment);
  }
}

u32 own_shared(u32 address, u32 bytes, u32 alignment, const char* what) {
  const Cta& cta = *me().cta;
  const u32 offset = address ^ (cta.rank << kRankShift);
  if (address >> kRankShift != cta.rank && address >> kRankShift < cta.cluster->ctas.size()) {
    found_fatal(
        "shared-rank",
        "{} at shared address 0x{:x}, which names the CTA of rank {}, by one of rank {}: an address of "
        "shared::cta carries the rank of its own CTA",
        what, address, address >> kRankShift, cta.rank);
  }
  check_shared_bounds(cta, offset, bytes, alignment, what);
  return offset;
}

void shared_write(Cta& cta, Lane& lane, u32 offset, u32 bytes, const char* what, u8 in_flight) {
  const Clock& seen = lane.clocks.seen;
  const Warp& warp = lane.cta->warps[lane.warp];
  cta.shared.each(offset, bytes, [&](SharedWrite& write, SharedReads& reads, u32 piece) {
    if (write.flags & kMbarrier)
      found("mbarrier-overwritten", "{} on the mbarrier at {}", what, shared_place(cta, piece));
    if (write.flags & kInFlight) {
      found(fmt::format("write-over-{}", instruction_of(write)),
            fmt::format("{} to {}, the destination of a {} in flight of {}", what, shared_place(cta, piece),
                        instruction_of(write), writer_of(cta, write)));
    } else if ((write.flags & kWritten) && !is_own(write, lane) && write.clock > seen.at[write.component]) {
      found("race-WAW", "{} to {} is not ordered after the write of {}", what, shared_place(cta, piece),
            writer_of(cta, write));
    }
    for (u32 reader = 0; reader < cta.warp_count; ++reader) {
      const Warp& reading = cta.warps[reader];
      if (reads[reader] <= seen.at[reading.component]) continue;
      if (reads[reader] & kReadInFlight) {
        found("write-under-wgmma", "{} to {}, which a wgmma in flight of warp {}{} reads", what,
              shared_place(cta, piece), reader, of_cta(cta));
      } else if (&reading != &warp) {
        found("race-WAR", "{} to {} is not ordered after the read of warp {}{}{}", what,
              shared_place(cta, piece), reader, of_cta(cta),
              reading.unused_loads.overtaken(reads[reader])
                  ? ": nobody used what it read before the arrival, which may overtake the load"
                  : "");
      } else {
        continue;  // the lanes of one warp: README.md, "Not modelled"
      }
      break;
    }
    const u16 number = static_cast<u16>(lane.number);
    if (in_flight) {
      write = {warp.engine_clock, number, static_cast<u8>(warp.engine()),
               static_cast<u8>(kInFlight | kWritten | in_flight)};
    } else {
      write = {warp.clock, number, static_cast<u8>(warp.component), kWritten};
    }
  });
  if (&cta != lane.cta && !in_flight)
    cta.peer_accesses[warp.component] = {warp.clock, &lane, lane.place, what};
}

void shared_read(Lane& lane, u32 offset, u32 bytes, const char* what) {
  Cta& cta = *lane.cta;
  const u32 clock = cta.warps[lane.warp].clock;
  cta.shared.each(offset, bytes, [&](SharedWrite& write, SharedReads& reads, u32 piece) {
    if (check_readable(cta, write, piece, what) && !is_own(write, lane) &&
        write.clock > lane.clocks.seen.at[write.component]) {
      found("race-RAW", "{} of {} is not ordered after the write of {}", what, shared_place(cta, piece),
            writer_of(cta, write));
    }
    if (!(reads[lane.warp] & kReadInFlight)) reads[lane.warp] = clock;
  });
}

void shared_read_async(Lane& lane, u32 offset, u32 mark, const char* what) {
  Cta& cta = *lane.cta;
  const Clocks& clocks = lane.clocks;
  cta.shared.each(offset, 16, [&](SharedWrite& write, SharedReads& reads, u32 piece) {
    if (check_readable(cta, write, piece, what)) {
      const u32 seen = clocks.seen.at[write.component];
      if (write.clock > seen) {
        found("race-RAW", "{} of {} is not ordered after the write of {}", what, shared_place(cta, piece),
              writer_of(cta, write));
      } else if (write.clock > clocks.fenced.at[write.component] &&
                 (write.component >= kClusterWarps || !fenced_by_writer(cta, write, seen))) {
        found("no-proxy-fence",
              "{} of {}, which {} wrote through the generic proxy, with no fence.proxy.async since", what,
              shared_place(cta, piece), writer_of(cta, write));
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
  const Cta& cta = *me().cta;
  return cta.rank << kRankShift | cta.shared.address_of(pointer);
}

void call_st_shared(u32 address, const void* value, int bytes) {
  note_place();
  const u32 n = static_cast<u32>(bytes), offset = own_shared(address, n, n, "st.shared");
  shared_write(*me().cta, me(), offset, n, "st.shared");
  std::memcpy(me().cta->shared.data(offset), value, n);
}

void call_ld_shared(void* value, u32 address, int bytes) {
  note_place();
  const u32 n = static_cast<u32>(bytes), offset = own_shared(address, n, n, "ld.shared");
  begin_load(*me().cta, my_warp());
  shared_read(me(), offset, n, "ld.shared");
  std::memcpy(value, me().cta->shared.data(offset), n);
}

// Atomics do not race with one another: a word that both sides touched by atomics alone is left as its first
// writer's.
u32 call_atom_shared_or(u32 address, u32 bits) {
  note_place();
  const u32 offset = own_shared(address, 4, 4, "atom.shared");
  Lane& lane = me();
  Cta& cta = *lane.cta;
  cta.shared.each(offset, 4, [&](SharedWrite& write, SharedReads&, u32 piece) {
    if (!(write.flags & kAtomic)) {
      shared_read(lane, piece, 4, "atom.shared");
      shared_write(cta, lane, piece, 4, "atom.shared");
    }
    const Warp& warp = cta.warps[lane.warp];
    write = {warp.clock, static_cast<u16>(lane.number), static_cast<u8>(warp.component), kWritten | kAtomic};
  });
  u32 old;
  u8* word = cta.shared.data(offset);
  std::memcpy(&old, word, 4);
  const u32 now = old | bits;
  std::memcpy(word, &now, 4);
  return old;
}

}  // namespace smla::core::emulator
