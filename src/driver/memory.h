// Device memory for tools and tests; the library itself never allocates any.
#pragma once

#include <cstddef>
#include <utility>

#include "driver/cuda_abi.h"

namespace smla::core {

// Owns `bytes` of device memory of the context that was current when it was made. Zero bytes: a null pointer.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes);  // Error cuda_error when the device has no room; names the size
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  void* data() const { return reinterpret_cast<void*>(address_); }
  cuda::DevicePointer address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }
  cuda::DevicePointer address_ = 0;
  std::size_t bytes_ = 0;
};

// The copies wait for the stream before they return, so that pageable host memory may be freed at once.
// Pointers of device memory may lie inside a buffer.
void copy_to_device(void* to, const void* from, std::size_t bytes, cuda::Stream stream = nullptr);
void copy_to_host(void* to, const void* from, std::size_t bytes, cuda::Stream stream = nullptr);

// Enqueued, not waited for.
void copy_on_device(void* to, const void* from, std::size_t bytes, cuda::Stream stream = nullptr);
void fill(void* to, unsigned char value, std::size_t bytes, cuda::Stream stream = nullptr);

// Bytes free on the current device.
std::size_t free_device_memory();

}  // namespace smla::core
