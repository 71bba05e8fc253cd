// Kernels in the driver: one library a Prepared and process, made ready once a device.
#pragma once

#include <array>
#include <memory>

#include "driver/device.h"
#include "plan/device_facts.h"
#include "plan/prepare.h"

namespace smla::core {

struct LoadedKernels {
  std::array<cuda::Kernel, 4> kernels = {};  // by KernelRole; null where there is none
  DeviceFacts facts;
};

// Loads at the first call for a Prepared and device, and never unloads: kernels may be queued for as long as
// the process lives.
LoadedKernels load_kernels(const std::shared_ptr<const Prepared>& prepared, const DeviceProperties& device);

// Whether load_kernels would only look up.
bool is_loaded(const Prepared& prepared, const DeviceProperties& device);

}  // namespace smla::core
