// The same call with its tensors lying elsewhere: strides are arguments, and what lies between is not ours.
#pragma once

#include "cases_of_lists.h"
#include "contract_case.h"

namespace smla_test {

// Every tensor a slice of a wider one: rows of q, kv, o, d_o, d_q and d_kv keep 16 bytes of alignment, the
// others lie at odd elements.
inline Layout sliced_layout(const Case& c) {
  const HostTensors& t = c.tensors;
  const std::int64_t heads = c.problem.heads;
  const std::int64_t groups = c.problem.kv_groups;
  const auto slice = [](std::int64_t tokens, std::int64_t per_token, std::int64_t width,
                        std::int64_t before) {
    const std::int64_t token = (per_token + 1) * width;
    return Placement{.strides = {{(tokens + 1) * token, token, width}}, .before = before, .behind = width};
  };
  const std::int64_t d_qk = c.problem.d_qk();
  const std::int64_t d_v = c.problem.d_v;
  const std::int64_t length_groups = t.length_per_group ? groups : 1;
  return {.q = slice(t.queries, heads, d_qk + 8, 8),
          .kv = slice(t.keys, groups, d_qk + 64, 64),
          .o = slice(t.queries, heads, d_v + 16, 0),
          .d_o = slice(t.queries, heads, d_v + 24, 24),
          .indices = slice(t.queries, groups, t.topk + 3, 1),
          .topk_length = slice(t.queries, length_groups, 1, 3),
          .lse = slice(t.queries, heads, 1, 1),
          .delta = slice(t.queries, heads, 3, 5),
          .d_q = slice(t.queries, heads, d_qk + 40, 16),
          .d_kv = slice(t.keys, groups, d_qk + 8, 8)};
}

// The list's second half out of range, so that both paths of a kernel meet every layout.
inline Case layout_case(int heads) {
  Problem problem = plain_problem(heads);
  problem.has_topk_length = true;
  problem.has_sink = true;
  problem.has_delta = true;
  Case c{.problem = problem};
  c.tensors = make_inputs(problem, {.batch = 2, .queries = 5, .keys = 80, .topk = 71, .junk_share = 0.1}, 12);
  return c;
}

inline void slices_of_wider_tensors(const Executor& run, int heads) {
  Case c = layout_case(heads);
  c.layout = sliced_layout(c);
  run_and_compare(run, c);
}

inline void transposed_tensors(const Executor& run, int heads) {
  Case c = layout_case(heads);
  const std::int64_t queries = c.tensors.queries;
  const std::int64_t head_count = heads;
  const auto transposed = [&](std::int64_t width) {  // [B, H, S, width]
    return Placement{.strides = {{head_count * queries * width, width, queries * width}}};
  };
  c.layout.d_o = transposed(512);
  c.layout.q = c.layout.d_q = transposed(576);
  c.layout.lse = transposed(1);
  run_and_compare(run, c);
}

inline void expanded_d_o(const Executor& run, int heads) {
  Case c{.problem = plain_problem(heads)};
  c.tensors = make_inputs(c.problem, {.batch = 2, .queries = 5, .keys = 80, .topk = 40}, 13);
  for (std::size_t i = 512; i < c.tensors.d_o.size(); ++i) c.tensors.d_o[i] = c.tensors.d_o[i % 512];
  add_forward(c.problem, c.tensors);
  c.layout.d_o.strides = {{0, 0, 0}};
  run_and_compare(run, c);
}

}  // namespace smla_test

#define SMLA_CASES_OF_LAYOUTS(CASE)                                                            \
  CASE("C35: slices of wider tensors give what contiguous ones give", slices_of_wider_tensors) \
  CASE("C35: transposed tensors give what contiguous ones give", transposed_tensors)           \
  CASE("C35: an expanded d_o gives what its contiguous copy gives", expanded_d_o)
