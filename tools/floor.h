// The least time that a call can take on the device, as far as it is known.
#pragma once

#include <optional>

#include "driver/device.h"
#include "plan/lengths.h"
#include "problem/problem.h"

namespace smla::core {

// Floating-point operations of a call, whatever part of the lists is valid: 2 B S H topk (3 d_qk + 2 d_v).
double call_flops(const Problem& problem, const Lengths& lengths);

// Milliseconds below which the reductions into d_kv cannot come with fp32 sums and one token a CTA. Nothing
// for devices on which it was not measured: it is a figure of the H200.
std::optional<double> floor_milliseconds(const Problem& problem, const Lengths& lengths,
                                         const DeviceProperties& device);

}  // namespace smla::core
