// Global memory: buffers of exact size that every access is checked against, and the order between CTAs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "emulator/clock.h"

namespace smla::core::emulator {

// What has been done to one 32-bit word during the launch `epoch`; older records count as none.
struct WordRecord {
  u32 epoch = 0;
  u32 writer_cta = 0, reducer_cta = 0, reader_cta = 0;  // index + 1; 0: nobody; kSeveral: more than one CTA
  u32 write_clock = 0, read_clock = 0;
  u16 writer_lane = 0, reader_lane = 0;
  bool read_nc = false;      // by ld.global.nc
  bool initialised = false;  // by the host or by any launch
};

// Memory for tensors of a call. It ends flush against a page that faults, holds NaN bits, and is known to
// every check by its name. Contents that the kernels may read are copied in by `fill`; the rest counts as
// never written.
class GlobalBuffer {
 public:
  enum class Access { read_only, read_write };

  GlobalBuffer() = default;
  GlobalBuffer(std::size_t bytes, std::string name, Access access);
  ~GlobalBuffer();
  GlobalBuffer(GlobalBuffer&& other) noexcept;
  GlobalBuffer& operator=(GlobalBuffer&& other) noexcept;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  bool read_only() const { return access_ == Access::read_only; }
  void fill(const void* from, std::size_t bytes);

  WordRecord& word(std::size_t index) { return words_[index]; }
  bool holds(const void* address) const;  // or its guard page
  bool initialised(std::size_t offset, std::size_t bytes) const;

 private:
  void release();
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  u8* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::string name_;
  Access access_ = Access::read_only;
  std::vector<WordRecord> words_;  // of a writable buffer
};

// The buffer that holds an address or whose guard page does; null when none does.
GlobalBuffer* buffer_at(const void* address);

enum class GlobalUse { read, read_nc, read_relaxed, write, reduce };

// Ends the run for an access outside of buffers, misaligned, or a write to what is read only; a finding for
// conflicts with other CTAs, or with other threads of this one that are not ordered before.
void check_global_read(const void* pointer, u32 bytes, u32 alignment, GlobalUse use, const char* what);
void check_global_write(const void* pointer, u32 bytes, u32 alignment, GlobalUse use, const char* what);

void call_ld_global(void* value, const void* pointer, int bytes, int access);
void call_st_global(void* pointer, const void* value, int bytes);
void call_red_u32(u32* pointer, u32 value);
void call_red_or_u32(void* pointer, u32 bits);
void call_red_u64(void* pointer, unsigned long long value);
void call_red_f32(void* pointer, const float* values, int count);
void call_red_f16x2(void* pointer, const u32* pairs, int count);
void call_bulk_prefetch(const void* source, int bytes);

}  // namespace smla::core::emulator
