// Comparing the outputs of a call with the fp64 reference, on sampled rows where there are many.
#pragma once

#include <string>
#include <vector>

#include "device_call.h"
#include "problem/problem.h"
#include "reference/difference.h"
#include "reference/host_tensors.h"

namespace smla::core {

struct CheckedTensor {
  std::string name;       // "lse", "o", "d_q", "d_kv", "d_sink"
  std::int64_t rows = 0;  // compared
  Difference difference;
  double bound = 0;    // of relative_l2
  bool right = false;  // within the bound, or what fp32 sums may leave (reference/bounds.h)
  bool passed() const { return right; }
};

CheckedTensor compared(std::string name, std::int64_t rows, const std::vector<double>& got,
                       const std::vector<double>& want, double bound, double noise = 0);

// Reads back the outputs of a finished call and compares `samples` query tokens (o and lse too where
// the call's own forward made them) and kv rows, spread over the call, and all of d_sink. All of d_q and d_kv
// is looked through for values that are not finite, and what lies around them for bytes that were written
// ("surroundings", bound 0). Bounds: reference/bounds.h.
std::vector<CheckedTensor> check_outputs(const Problem& problem, const HostTensors& tensors,
                                         const DeviceCall& call, std::int64_t samples = 16);

}  // namespace smla::core
