// The calls that a faulty kernel is run on, and what was found first.
#pragma once

#include <string>
#include <vector>

#include "cpu_kernels.h"

namespace smla_test {

// A small call that reaches every path of the kernels: a list of less than a tile, a dead row, lists of
// several tiles with entries that do not count or come twice, more heads than CTAs of postprocess; in the
// caller's order and, where it exists, the sweep. And there, a call of so few tokens that CTAs share lists.
struct FaultCase {
  HostTensors tensors;
  Gradients want;
  OrderRequest order;
  std::uint32_t virtual_sms = 2;
};

// Two lists, one of them dead, on 8 SMs: three CTAs each, of two tiles, two and one.
inline FaultCase split_case(const Problem& problem) {
  HostTensors tensors =
      make_inputs(problem, {.queries = 2, .keys = 310, .topk = 310, .with_forward = false}, 8);
  std::fill(tensors.indices.begin(), tensors.indices.begin() + 310, -1);
  add_forward(problem, tensors);
  const Gradients want = backward(problem, tensors);
  return {std::move(tensors), want, OrderRequest::callers, 8};
}

inline std::vector<FaultCase> fault_cases(const Problem& problem, bool sweeps) {
  InputOptions options = {.queries = 4, .keys = 150, .topk = 190};
  options.hole_share = 0.1;
  options.junk_share = 0.1;
  options.duplicate_share = 0.1;
  options.with_forward = false;
  HostTensors tensors = make_inputs(problem, options, 7);
  std::fill(tensors.indices.begin() + 20, tensors.indices.begin() + 2 * 190, -1);
  add_forward(problem, tensors);
  const Gradients want = backward(problem, tensors);
  std::vector<FaultCase> cases = {{tensors, want, OrderRequest::callers}};
  if (sweeps) cases.push_back({tensors, want, OrderRequest::sorted_throttled});
  if (sweeps) cases.push_back(split_case(problem));
  return cases;
}

// The kinds of findings of the first run that has some; empty when all runs are clean.
inline std::string first_findings(const CpuSubject& subject, const std::vector<FaultCase>& cases,
                                  std::uint64_t seeds) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    for (const FaultCase& c : cases) {
      const CpuVerdict verdict =
          run_subject(subject, c.tensors, c.want, c.order,
                      {.seed = seed, .virtual_sms = c.virtual_sms, .step_limit = 2'000'000});
      if (!verdict.good()) return verdict.kinds();
    }
  }
  return "";
}

}  // namespace smla_test
