// One call with its tensors in device memory, as a benchmark makes it.
#pragma once

#include "driver/memory.h"
#include "driver/stream.h"
#include "plan/call.h"
#include "plan/plan.h"
#include "reference/host_tensors.h"

namespace smla::core {

struct DeviceCall {
  DeviceBuffer q, kv, o, d_o, indices, topk_length, lse, attn_sink, delta;
  DeviceBuffer d_q, d_kv, d_sink, workspace;
  Stream stream;
  Call call;  // points into the buffers
};

// Uploads the inputs, computes o, lse and delta into `tensors` and the device by forward.cuh, and allocates
// outputs and workspace. A context of the plan's device is current. Errors: those of the driver (no room) and
// of the plan.
DeviceCall make_device_call(const Plan& plan, HostTensors& tensors, OrderRequest order);

}  // namespace smla::core
