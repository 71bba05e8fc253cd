// Comparing a benchmark's outputs with the fp64 reference on sampled rows.
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
  double bound = 0;  // of relative_l2
  bool passed() const { return difference.finite() && difference.relative_l2 <= bound; }
};

// Reads back the outputs of a finished call and compares `samples` query tokens (o and lse too: what the
// benchmark's own forward made) and kv rows, spread over the call, and all of d_sink. All of d_q and d_kv is
// looked through for values that are not finite. Bounds: the contract's for a gradient (3e-3 in bf16, 5e-4 in
// fp16).
std::vector<CheckedTensor> check_outputs(const Problem& problem, const HostTensors& tensors,
                                         const DeviceCall& call, std::int64_t samples = 16);

}  // namespace smla::core
