#include "driver/memory.h"

#include "base/error.h"
#include "driver/driver.h"

namespace smla::core {
namespace {

cuda::DevicePointer address(const void* pointer) {
  return reinterpret_cast<cuda::DevicePointer>(pointer);
}

}  // namespace

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  check(driver().mem_alloc(&address_, bytes), "cuMemAlloc", fmt::format("{} bytes", bytes));
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ == 0) return;
  if (const Driver* d = live_driver()) d->mem_free(address_);
}

void copy_to_device(void* to, const void* from, std::size_t bytes, cuda::Stream stream) {
  if (bytes == 0) return;
  check(driver().memcpy_to_device(address(to), from, bytes, stream), "cuMemcpyHtoDAsync");
  check(driver().stream_synchronize(stream), "cuStreamSynchronize");
}

void copy_to_host(void* to, const void* from, std::size_t bytes, cuda::Stream stream) {
  if (bytes == 0) return;
  check(driver().memcpy_to_host(to, address(from), bytes, stream), "cuMemcpyDtoHAsync");
  check(driver().stream_synchronize(stream), "cuStreamSynchronize");
}

void copy_on_device(void* to, const void* from, std::size_t bytes, cuda::Stream stream) {
  if (bytes == 0) return;
  check(driver().memcpy_on_device(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync");
}

void fill(void* to, unsigned char value, std::size_t bytes, cuda::Stream stream) {
  if (bytes == 0) return;
  check(driver().memset_bytes(address(to), value, bytes, stream), "cuMemsetD8Async");
}

std::size_t free_device_memory() {
  std::size_t free_bytes = 0, total_bytes = 0;
  check(driver().mem_get_info(&free_bytes, &total_bytes), "cuMemGetInfo");
  return free_bytes;
}

}  // namespace smla::core
