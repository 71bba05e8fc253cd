// One GPU: what it is, and being current on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "driver/cuda_abi.h"

namespace smla::core {

struct DeviceProperties {
  int ordinal = 0;  // as CUDA_VISIBLE_DEVICES numbers them
  cuda::Device handle = 0;
  std::string name;  // "NVIDIA H200"
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  int shared_memory_limit = 0;  // bytes that one CTA may ask for
  std::size_t l2_bytes = 0;
  std::size_t total_bytes = 0;  // memory of the device
  int clock_khz = 0;            // its highest

  bool operator==(const DeviceProperties&) const = default;
};

int device_count();

// Errors: no_driver, and invalid_argument for an ordinal that this process does not see (says how many it
// sees).
DeviceProperties device_properties(int ordinal);

// The device of the calling thread's current context, or 0 where there is none.
int current_device();

// Which context is current on this thread; nothing where none is, or none that can be used. Unlike an
// address, an identity is never given to a second context of the process.
enum class ContextId : std::uint64_t {};
std::optional<ContextId> current_context();

// While alive, a context of the device is current on this thread: the thread's own one when it is of this
// device, else the device's primary context, pushed and popped again. The primary context is the one that the
// CUDA runtime and PyTorch use; smla retains it at the first use on each device and keeps it while the
// process lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(cuda::Device device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace smla::core
