// Kernels in the driver: one library a Prepared and process, made ready once a device.
#pragma once

#include <memory>

#include "driver/device.h"
#include "plan/device_facts.h"
#include "plan/functions.h"
#include "plan/prepare.h"

namespace smla::core {

struct LoadedKernels {
  FunctionTable* functions = nullptr;  // lives as long as the process
  DeviceFacts facts;
};

// Loads at the first call for a Prepared and device, and never unloads: kernels may be queued for as long as
// the process lives.
LoadedKernels load_kernels(const std::shared_ptr<const Prepared>& prepared, const DeviceProperties& device);

// Whether load_kernels would only look up.
bool is_loaded(const Prepared& prepared, const DeviceProperties& device);

}  // namespace smla::core
