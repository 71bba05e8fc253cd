// One call with its tensors in device memory, as the tools make it.
#pragma once

#include "driver/memory.h"
#include "driver/stream.h"
#include "plan/call.h"
#include "plan/plan.h"
#include "reference/host_tensors.h"
#include "reference/layout.h"

namespace smla::core {

struct DeviceCall {
  Boxes boxes;
  bool own_forward = false;  // o, lse and delta were computed here
  DeviceBuffer q, kv, o, d_o, indices, topk_length, lse, attn_sink, delta;
  DeviceBuffer d_q, d_kv, d_sink, workspace;
  Stream stream;
  Call call;  // points into the buffers
};

// Uploads the inputs and allocates outputs and workspace, filled with NaN bits. Where `tensors` has no o and
// lse, forward.cuh computes them and delta, into `tensors` too; their layout is the contiguous one then. A
// context of the plan's device is current. Errors: those of the driver (no room) and of the plan.
DeviceCall make_device_call(const Plan& plan, HostTensors& tensors, OrderRequest order,
                            const Layout& layout = {});

}  // namespace smla::core
