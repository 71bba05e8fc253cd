// The shared memory of a CTA, and its shadow: who last wrote and who last read every piece.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "emulator/clock.h"

namespace smla::core::emulator {

struct Cta;
struct Lane;

// Addresses of a cluster: the rank of the CTA, and in the lower bits the offset in its window. Offsets are
// what the functions of this room take, but for those that turn one into the other.
constexpr u32 kRankShift = 24;
constexpr u32 kSharedBase = 1024;  // where dynamic shared memory starts; the system has what lies below
constexpr u32 kSharedLimit = (1 + 227) * 1024;  // of sm_90
constexpr u32 kStaticReserve = 8 * 1024;        // behind the dynamic part

// The last write to a piece.
struct SharedWrite {
  u32 clock = 0;
  u16 lane = 0;  // in the cluster
  u8 component =
      0;  // of the clocks: the writer's warp, its copy engine, or the mbarrier that counted the bytes
  u8 flags = 0;
};
enum SharedWriteFlag : u8 {
  kInFlight = 1,  // the destination of a cp.async or st.async that is not complete
  kWritten = 2,
  kMbarrier = 4,      // belongs to an mbarrier object
  kAtomic = 8,        // by an atomic operation
  kAsyncStored = 16,  // by st.async
};

// The last read of each warp of the CTA: its clock, or this bit and the group of a wgmma that still reads.
constexpr u32 kReadInFlight = 0x80000000u;
using SharedReads = std::array<u32, kMaxWarps>;

class SharedMemory {
 public:
  // `dynamic` bytes, all NaN bits, never written.
  void restart(u32 dynamic);

  u8* data(u32 address) { return bytes_.data() + address; }
  u32 end() const { return end_; }
  u32 address_of(const void* pointer) const {
    return static_cast<u32>(static_cast<const u8*>(pointer) - bytes_.data());
  }
  // A static array, placed behind the dynamic part at its first use; `key` names its declaration.
  u32 static_array(int key, u32 bytes);

  // Calls visit(write, reads, address) for each piece of a range: 16 bytes, or words once a piece was touched
  // in part.
  template <class Visit>
  void each(u32 address, u32 bytes, Visit visit) {
    for (u32 granule = address >> 4; granule <= (address + bytes - 1) >> 4; ++granule) {
      const u32 low = std::max(address, granule << 4), high = std::min(address + bytes, (granule << 4) + 16);
      if (!(index_[granule] & kSplit)) {
        if (high - low == 16) {
          visit(writes_[index_[granule]], reads_[index_[granule]], granule << 4);
          continue;
        }
        split(granule);
      }
      const u32 first = index_[granule] & ~kSplit;
      for (u32 word = (low & 15) >> 2; word <= ((high - 1) & 15) >> 2; ++word) {
        visit(writes_[first + word], reads_[first + word], (granule << 4) + word * 4);
      }
    }
  }

 private:
  static constexpr u32 kSplit = 0x80000000u;
  void split(u32 granule);

  std::vector<u8> bytes_;
  u32 end_ = kSharedBase;
  std::vector<u32> index_;  // of a granule's records, with kSplit when it has four of them
  std::vector<SharedWrite> writes_;
  std::vector<SharedReads> reads_;
  std::map<int, u32> static_arrays_;
};

// Ends the run unless the range lies in the CTA's shared memory and is aligned.
void check_shared_bounds(const Cta& cta, u32 offset, u32 bytes, u32 alignment, const char* what);

// The offset that a shared::cta address of the running lane names. Ends the run unless it carries the rank of
// the lane's own CTA, and for the same reasons as check_shared_bounds.
u32 own_shared(u32 address, u32 bytes, u32 alignment, const char* what);

// Checks and records an access of `lane`, to its own CTA's memory, or a write to that of `cta`. in_flight: 0,
// or the flags of a write that lands later.
void shared_write(Cta& cta, Lane& lane, u32 offset, u32 bytes, const char* what, u8 in_flight = 0);
void shared_read(Lane& lane, u32 offset, u32 bytes, const char* what);

// 16 bytes read by the asynchronous proxy for a wgmma of `lane`'s warp, in flight until its group `mark` has
// been waited for.
void shared_read_async(Lane& lane, u32 offset, u32 mark, const char* what);

std::string shared_place(const Cta& cta, u32 offset);
std::string of_cta(const Cta& cta);  // " of CTA 3" when that is not the running lane's

// The table's functions.
void* call_dynamic_shared();
void* call_static_shared(int line, int bytes);
u32 call_shared_address(const void* pointer);
void call_st_shared(u32 address, const void* value, int bytes);
void call_ld_shared(void* value, u32 address, int bytes);
u32 call_atom_shared_or(u32 address, u32 bits);

}  // namespace smla::core::emulator
