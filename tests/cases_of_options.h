// Families of cases that are data alone: each is to agree with the reference within the contract's bounds.
#pragma once

#include <cmath>

#include "cases_of_layouts.h"
#include "contract_case.h"
#include "covering.h"

namespace smla_test {

inline double d_o_rms_for(DType dtype) {
  return dtype == DType::bf16 ? 1.0 : 8.0;
}

// Every two settings of two options meet in one of these.
inline std::vector<Case> option_cases(int heads_per_group) {
  std::vector<Case> cases;
  for (const std::vector<int>& row : covering_rows({2, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2})) {
    Problem problem{.kv_groups = 1 + row[8],
                    .d_tail = row[10] == 0 ? 64 : 0,
                    .dtype = row[9] == 0 ? DType::bf16 : DType::fp16,
                    .causal = row[0] == 1,
                    .has_sink = row[2] > 0,
                    .has_topk_length = row[1] > 0,
                    .has_delta = row[4] == 1,
                    .lse_base = row[3] == 0 ? LseBase::two : LseBase::e,
                    .lse_includes_sink = row[2] == 2,
                    .d_kv_type = row[5] == 0 ? DkvType::operand : DkvType::fp32};
    problem.heads = heads_per_group * problem.kv_groups;
    InputOptions options{.batch = row[7] == 0 ? 1 : 3,
                         .queries = 9,
                         .keys = 150,
                         .topk = 70,
                         .query_offset = 120,
                         .length_per_group = row[1] == 2,
                         .d_o_rms = d_o_rms_for(problem.dtype),
                         .sink_mean = 4};
    if (row[11] == 1)
      options.junk_share = options.hole_share = options.duplicate_share = options.dead_share = 0.15;
    Case c{.problem = problem, .tensors = make_inputs(problem, options, 100 + cases.size())};
    if (row[6] == 1) c.layout = sliced_layout(c);
    cases.push_back(c);
  }
  return cases;
}

// Every two of heads, topk, tail, type and lengths meet in one of these.
inline std::vector<Case> shape_cases(const std::vector<int>& heads) {
  const std::vector<std::int64_t> topk = {1, 17, 64, 100, 2048};
  const std::vector<std::int64_t> queries = {3, 24, 70};
  const std::vector<std::int64_t> keys = {1, 60, 333, 700, 2500};
  std::vector<Case> cases;
  const std::vector<int> levels = {static_cast<int>(heads.size()),   static_cast<int>(topk.size()), 2, 2,
                                   static_cast<int>(queries.size()), static_cast<int>(keys.size())};
  for (const std::vector<int>& row : covering_rows(levels)) {
    const Problem problem{.heads = heads[static_cast<std::size_t>(row[0])],
                          .d_tail = row[2] == 0 ? 64 : 0,
                          .dtype = row[3] == 0 ? DType::bf16 : DType::fp16};
    InputOptions options{.queries = queries[static_cast<std::size_t>(row[4])],
                         .keys = keys[static_cast<std::size_t>(row[5])],
                         .topk = topk[static_cast<std::size_t>(row[1])],
                         .d_o_rms = d_o_rms_for(problem.dtype)};
    Case c{.problem = problem, .tensors = make_inputs(problem, options, 200 + cases.size())};
    if (std::min(options.topk, options.keys) == 1) {
      // One key has P = 1 and dP = delta: nothing to see. With the o of another forward there is.
      options.with_forward = false;
      options.d_o_rms = 1;
      c.tensors.o = make_inputs(problem, options, 300 + cases.size()).d_o;
    }
    cases.push_back(c);
  }
  return cases;
}

inline void expect_reference(const Executor& run, const Case& c) {
  expect_matches(c, run(c), backward(c.problem, c.tensors), gradient_bound(c.problem, c.tensors));
}

}  // namespace smla_test
