// The calls that a faulty kernel is run on, and what was found first.
#pragma once

#include <string>
#include <vector>

#include "cpu_kernels.h"

namespace smla_test {

// Two small calls that reach every path of a backward: several tiles, part of one, invalid entries, both
// orders.
struct FaultCase {
  HostTensors tensors;
  Gradients want;
  OrderRequest order;
};

inline std::vector<FaultCase> fault_cases(const Problem& problem, bool sweeps) {
  std::vector<FaultCase> cases;
  InputOptions options = {.queries = 3, .keys = 150, .topk = 190};
  options.hole_share = 0.1;
  options.junk_share = 0.1;
  HostTensors tensors = make_inputs(problem, options, 7);
  Gradients want = backward(problem, tensors);
  cases.push_back({tensors, want, OrderRequest::callers});
  if (sweeps) cases.push_back({std::move(tensors), std::move(want), OrderRequest::sorted_throttled});
  return cases;
}

// The kinds of findings of the first run that has some; empty when all runs are clean.
inline std::string first_findings(const CpuSubject& subject, const std::vector<FaultCase>& cases,
                                  std::uint64_t seeds) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    for (const FaultCase& c : cases) {
      const CpuVerdict verdict = run_subject(subject, c.tensors, c.want, c.order,
                                             {.seed = seed, .virtual_sms = 2, .step_limit = 2'000'000});
      if (!verdict.good()) return verdict.kinds();
    }
  }
  return "";
}

}  // namespace smla_test
