// o and lse on the GPU: the inputs that a benchmark of the backward needs from a forward.
#pragma once

#include "driver/cuda_abi.h"
#include "driver/device.h"
#include "generator/kernel_source.h"
#include "problem/problem.h"
#include "reference/host_tensors.h"

namespace smla::core {

// Contiguous tensors in device memory, shaped as in HostTensors.
struct ForwardBuffers {
  const void* q = nullptr;
  const void* kv = nullptr;
  const void* indices = nullptr;
  const void* topk_length = nullptr;  // null without has_topk_length
  const void* attn_sink = nullptr;    // null without has_sink
  void* o = nullptr;
  void* lse = nullptr;
};

// Compiles forward.cuh for the device and runs it to its end. `tensors` gives lengths and scale; its vectors
// are not read. Errors: those of compile() and the driver.
void run_forward(const Problem& problem, const HostTensors& tensors, const DeviceProperties& device,
                 const ForwardBuffers& buffers, cuda::Stream stream);

// The text that run_forward compiles, and the dynamic shared memory of its kernel in bytes.
KernelSource forward_source(const Problem& problem);
int forward_shared_bytes(const Problem& problem);

}  // namespace smla::core
