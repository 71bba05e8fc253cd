#include "driver/device.h"

#include <array>
#include <atomic>
#include <mutex>

#include "base/error.h"
#include "driver/driver.h"

namespace smla::core {
namespace {

constexpr int kMaxDevices = 64;  // of one process; CUDA's own limit of visible devices is smaller

cuda::Context primary_context(cuda::Device device) {
  static std::array<std::atomic<cuda::Context>, kMaxDevices> contexts = {};
  static std::mutex mutex;
  if (device < 0 || device >= kMaxDevices) {
    fail(Status::invalid_argument, "device = {} is not below {}", device, kMaxDevices);
  }
  std::atomic<cuda::Context>& slot = contexts[static_cast<std::size_t>(device)];
  if (cuda::Context context = slot.load(std::memory_order_acquire)) return context;
  const std::lock_guard lock(mutex);
  cuda::Context context = slot.load(std::memory_order_acquire);
  if (context == nullptr) {
    check(driver().primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
    slot.store(context, std::memory_order_release);
  }
  return context;
}

int attribute(cuda::DeviceAttribute which, cuda::Device device) {
  int value = 0;
  check(driver().device_get_attribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

}  // namespace

int device_count() {
  int count = 0;
  check(driver().device_get_count(&count), "cuDeviceGetCount");
  return count;
}

DeviceProperties device_properties(int ordinal) {
  const Driver& d = driver();
  const int count = device_count();
  if (ordinal < 0 || ordinal >= count) {
    fail(Status::invalid_argument, "device = {}: this process sees {} GPU{}", ordinal, count,
         count == 1 ? "" : "s");
  }
  DeviceProperties p;
  p.ordinal = ordinal;
  check(d.device_get(&p.handle, ordinal), "cuDeviceGet");
  std::array<char, 256> name = {};
  check(d.device_get_name(name.data(), static_cast<int>(name.size()) - 1, p.handle), "cuDeviceGetName");
  p.name = name.data();
  p.compute_major = attribute(cuda::kComputeCapabilityMajor, p.handle);
  p.compute_minor = attribute(cuda::kComputeCapabilityMinor, p.handle);
  p.multiprocessors = attribute(cuda::kMultiprocessorCount, p.handle);
  p.shared_memory_limit = attribute(cuda::kMaxSharedMemoryPerBlockOptin, p.handle);
  p.l2_bytes = static_cast<std::size_t>(attribute(cuda::kL2CacheSize, p.handle));
  p.clock_khz = attribute(cuda::kClockRate, p.handle);
  check(d.device_total_mem(&p.total_bytes, p.handle), "cuDeviceTotalMem");
  return p;
}

int current_device() {
  cuda::Context context = nullptr;
  check(driver().context_get_current(&context), "cuCtxGetCurrent");
  if (context == nullptr) return 0;
  cuda::Device device = 0;
  check(driver().context_get_device(&device), "cuCtxGetDevice");
  return device;  // handles are ordinals
}

std::optional<ContextId> current_context() {
  unsigned long long id = 0;
  if (driver().context_get_id(nullptr, &id) != cuda::kSuccess) return std::nullopt;
  return ContextId{id};
}

CurrentDevice::CurrentDevice(cuda::Device device) {
  const Driver& d = driver();
  cuda::Context current = nullptr;
  check(d.context_get_current(&current), "cuCtxGetCurrent");
  if (current != nullptr) {
    cuda::Device on = -1;
    check(d.context_get_device(&on), "cuCtxGetDevice");
    if (on == device) return;
  }
  check(d.context_push_current(primary_context(device)), "cuCtxPushCurrent");
  pushed_ = true;
}

CurrentDevice::~CurrentDevice() {
  if (!pushed_) return;
  cuda::Context popped = nullptr;
  if (const Driver* d = live_driver()) d->context_pop_current(&popped);
}

}  // namespace smla::core
