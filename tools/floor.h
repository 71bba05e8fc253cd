// The least time that a call can take on the device, as far as it is known.
#pragma once

#include <optional>

#include "config/config.h"
#include "driver/device.h"
#include "plan/lengths.h"
#include "problem/problem.h"
#include "reference/host_tensors.h"

namespace smla::core {

// Floating-point operations of a call, whatever part of the lists is valid: 2 B S H topk (3 d_qk + 2 d_v).
double call_flops(const Problem& problem, const Lengths& lengths);

// Tiles of 64 kv rows that the CTAs of a call gather and reduce, a fraction for the last of a list: a block
// of tokens has each row that one of its tokens names once. Masks and lengths of the problem are left out.
double reduced_tiles(const Problem& problem, const Config& config, const HostTensors& tensors);

// Milliseconds below which the reductions of so many tiles into d_kv cannot come; of a pair's CTA half the
// columns of each. Nothing for integer sums, nor for devices on which it was not measured: it is a figure of
// the H200.
std::optional<double> floor_milliseconds(const Problem& problem, const Config& config, double tiles,
                                         const DeviceProperties& device);

}  // namespace smla::core
