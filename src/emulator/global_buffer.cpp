#include <sys/mman.h>

#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "emulator/global_memory.h"

namespace smla::core::emulator {
namespace {

constexpr std::size_t kPage = 4096;

// By the start of their mappings.
std::map<const void*, GlobalBuffer*>& registry() {
  static std::map<const void*, GlobalBuffer*> buffers;
  return buffers;
}

}  // namespace

GlobalBuffer::GlobalBuffer(std::size_t bytes, std::string name, Access access)
    : bytes_(bytes), name_(std::move(name)), access_(access) {
  const std::size_t usable = (bytes + kPage) / kPage * kPage;
  mapping_bytes_ = usable + 2 * kPage;
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    fail(Status::internal_error, "no memory for {} of {} bytes", name_, bytes);
  }
  u8* first = static_cast<u8*>(mapping_) + kPage;
  mprotect(first, usable, PROT_READ | PROT_WRITE);
  std::memset(first, 0xff, usable);
  data_ = first + usable - (bytes + 15) / 16 * 16;  // 16-byte aligned, as flush as that allows
  if (access == Access::read_write) words_.resize((bytes + 3) / 4);
  registry()[mapping_] = this;
}

GlobalBuffer::~GlobalBuffer() {
  release();
}

void GlobalBuffer::release() {
  if (!mapping_) return;
  registry().erase(mapping_);
  munmap(mapping_, mapping_bytes_);
  mapping_ = nullptr;
}

GlobalBuffer::GlobalBuffer(GlobalBuffer&& other) noexcept {
  *this = std::move(other);
}

GlobalBuffer& GlobalBuffer::operator=(GlobalBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  mapping_ = std::exchange(other.mapping_, nullptr);
  mapping_bytes_ = other.mapping_bytes_;
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  name_ = std::move(other.name_);
  access_ = other.access_;
  words_ = std::move(other.words_);
  if (mapping_) registry()[mapping_] = this;
  return *this;
}

void GlobalBuffer::fill(const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(data_, from, bytes);
  for (std::size_t i = 0; i < words_.size() && i < (bytes + 3) / 4; ++i) words_[i].initialised = true;
}

bool GlobalBuffer::holds(const void* address) const {
  const u8* first = static_cast<const u8*>(mapping_);
  const u8* a = static_cast<const u8*>(address);
  return a >= first && a < first + mapping_bytes_;
}

bool GlobalBuffer::initialised(std::size_t offset, std::size_t bytes) const {
  for (std::size_t i = offset / 4; i < words_.size() && i < (offset + bytes + 3) / 4; ++i) {
    if (!words_[i].initialised) return false;
  }
  return true;
}

GlobalBuffer* buffer_at(const void* address) {
  auto next = registry().upper_bound(address);
  if (next == registry().begin()) return nullptr;
  GlobalBuffer* buffer = std::prev(next)->second;
  return buffer->holds(address) ? buffer : nullptr;
}

}  // namespace smla::core::emulator
