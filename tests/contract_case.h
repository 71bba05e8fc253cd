// A case of the contract: a call in host memory, and what an executor made of it. Bodies of cases
// (cases_of_*.h) take any executor: a GPU (gpu_call.h), the reference itself (contract_test.cpp), an
// emulator.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "catch.h"
#include "config/config.h"
#include "plan/order.h"
#include "problem/problem.h"
#include "reference/bounds.h"
#include "reference/difference.h"
#include "reference/half.h"
#include "reference/host_tensors.h"
#include "reference/inputs.h"
#include "reference/layout.h"
#include "reference/reference.h"

namespace smla_test {

using namespace smla::core;

struct Case {
  Problem problem = {};
  HostTensors tensors = {};
  ConfigRequest request = {};
  OrderRequest order = OrderRequest::automatic;
  Layout layout = {};
};

// Contiguous, in the shapes of the contract.
struct Outputs {
  std::vector<std::uint16_t> d_q;
  std::vector<std::uint16_t> d_kv;  // of the operand type; empty when the problem asks for fp32
  std::vector<float> d_kv_fp32;
  std::vector<float> d_sink;
  bool surroundings_intact = true;  // bytes of output buffers outside the tensors still hold 0xff
};

using Executor = std::function<Outputs(const Case&)>;
using CaseBody = void (*)(const Executor&, int heads_per_group);

inline Gradients widened(const Problem& problem, const Outputs& outputs) {
  Gradients g;
  for (const std::uint16_t bits : outputs.d_q)
    g.d_q.push_back(static_cast<double>(to_float(problem.dtype, bits)));
  for (const std::uint16_t bits : outputs.d_kv)
    g.d_kv.push_back(static_cast<double>(to_float(problem.dtype, bits)));
  for (const float value : outputs.d_kv_fp32) g.d_kv.push_back(static_cast<double>(value));
  for (const float value : outputs.d_sink) g.d_sink.push_back(static_cast<double>(value));
  return g;
}

// What the reference would write.
inline Outputs rounded(const Problem& problem, const Gradients& g) {
  Outputs outputs;
  for (const double value : g.d_q) outputs.d_q.push_back(to_operand(problem.dtype, value));
  for (const double value : g.d_kv) {
    if (problem.d_kv_type == DkvType::fp32) {
      outputs.d_kv_fp32.push_back(static_cast<float>(value));
    } else {
      outputs.d_kv.push_back(to_operand(problem.dtype, value));
    }
  }
  for (const double value : g.d_sink) outputs.d_sink.push_back(static_cast<float>(value));
  return outputs;
}

inline void expect_close(const char* tensor, const std::vector<double>& got, const std::vector<double>& want,
                         double bound, double noise = 0) {
  const Difference d = difference(got, want);
  INFO(tensor << ": " << describe(d) << ", bound " << bound);
  REQUIRE(d.finite());
  REQUIRE(is_close(d, want, bound, noise));
}

inline void expect_matches(const Case& c, const Outputs& outputs, const Gradients& want, double bound) {
  INFO(canonical_name(c.problem) << ", B " << c.tensors.batch << ", S " << c.tensors.queries << ", S_kv "
                                 << c.tensors.keys << ", topk " << c.tensors.topk);
  const Gradients got = widened(c.problem, outputs);
  REQUIRE(outputs.surroundings_intact);
  expect_close("d_q", got.d_q, want.d_q, bound, d_q_noise(c.problem, c.tensors));
  expect_close("d_kv", got.d_kv, want.d_kv, bound);
  expect_close("d_sink", got.d_sink, want.d_sink, kSinkBound, d_sink_noise(c.problem, c.tensors));
}

inline Gradients run_and_compare(const Executor& run, const Case& c) {
  const Outputs outputs = run(c);
  expect_matches(c, outputs, backward(c.problem, c.tensors), accuracy_bound(c.problem.dtype));
  return widened(c.problem, outputs);
}

// For cases whose rounding is systematic; see single_rounding_bound.
inline Gradients run_and_compare_coarsely(const Executor& run, const Case& c) {
  const Outputs outputs = run(c);
  expect_matches(c, outputs, backward(c.problem, c.tensors), single_rounding_bound(c.problem.dtype));
  return widened(c.problem, outputs);
}

// One list of every token, the same for all groups; what a list lacks up to topk stays -1.
inline void set_lists(Case& c, const std::vector<std::vector<std::int32_t>>& lists) {
  HostTensors& t = c.tensors;
  const std::int64_t groups = c.problem.kv_groups;
  t.indices.assign(static_cast<std::size_t>(t.batch * t.queries * groups * t.topk), -1);
  for (std::int64_t token = 0; token < t.batch * t.queries; ++token) {
    const auto& list = lists[static_cast<std::size_t>(token) % lists.size()];
    REQUIRE(std::ssize(list) <= t.topk);
    for (std::int64_t g = 0; g < groups; ++g) {
      std::copy(list.begin(), list.end(), t.indices.begin() + (token * groups + g) * t.topk);
    }
  }
}

inline std::vector<std::int32_t> rows_from_0_to(std::int32_t end) {
  std::vector<std::int32_t> rows;
  for (std::int32_t row = 0; row < end; ++row) rows.push_back(row);
  return rows;
}

// Random data, then the lists and, when they are given, topk_length a token; o, lse and delta as a forward
// saves them.
inline Case listed_case(const Problem& problem, std::int64_t queries, std::int64_t keys, std::int64_t topk,
                        const std::vector<std::vector<std::int32_t>>& lists,
                        const std::vector<std::int32_t>& topk_length = {}, std::int64_t query_offset = 0) {
  Case c{.problem = problem};
  c.problem.has_topk_length = !topk_length.empty();
  c.tensors = make_inputs(c.problem,
                          {.queries = queries,
                           .keys = keys,
                           .topk = topk,
                           .query_offset = query_offset,
                           .d_o_rms = problem.dtype == DType::fp16 ? 8.0 : 1.0,
                           .with_forward = false},
                          17);
  set_lists(c, lists);
  for (std::size_t i = 0; i < c.tensors.topk_length.size(); ++i) {
    c.tensors.topk_length[i] = topk_length[i % topk_length.size()];
  }
  add_forward(c.problem, c.tensors);
  return c;
}

// The flat oracle: q = 0, so that n valid keys have P = 1 / n each; the heads of d_o beyond the first are 0,
// so that numbers worked out for one head hold for any count.
inline void make_flat(Case& c) {
  std::fill(c.tensors.q.begin(), c.tensors.q.end(), std::uint16_t{0});
  const auto head = static_cast<std::size_t>(c.problem.d_v);
  const auto token = head * static_cast<std::size_t>(c.problem.heads);
  for (std::size_t i = 0; i < c.tensors.d_o.size(); ++i) {
    if (i % token >= head) c.tensors.d_o[i] = 0;
  }
  add_forward(c.problem, c.tensors);
}

inline void set_d_o_of_first_head_to_one(Case& c) {
  const auto head = static_cast<std::size_t>(c.problem.d_v);
  const auto token = head * static_cast<std::size_t>(c.problem.heads);
  for (std::size_t i = 0; i < c.tensors.d_o.size(); ++i) {
    c.tensors.d_o[i] = i % token < head ? to_operand(c.problem.dtype, 1.0) : std::uint16_t{0};
  }
  add_forward(c.problem, c.tensors);
}

// d_kv[row, column] of batch entry 0, group 0.
inline double d_kv_at(const Case& c, const Gradients& g, std::int64_t row, std::int64_t column) {
  return g.d_kv[static_cast<std::size_t>(row * c.problem.kv_groups * c.problem.d_qk() + column)];
}

// Expects d_kv[row, :d_v] = factor * d_o of the first head of `token`, and 0 in the tail.
inline void expect_part_of_d_o(const Case& c, const Gradients& g, std::int64_t row, double factor,
                               std::int64_t token = 0) {
  std::vector<double> got, want;
  for (std::int64_t column = 0; column < c.problem.d_qk(); ++column) {
    got.push_back(d_kv_at(c, g, row, column));
    const auto at = static_cast<std::size_t>(token * c.problem.heads * c.problem.d_v + column);
    want.push_back(column < c.problem.d_v
                       ? factor * static_cast<double>(to_float(c.problem.dtype, c.tensors.d_o[at]))
                       : 0.0);
  }
  INFO("kv row " << row);
  expect_close("d_kv row", got, want, single_rounding_bound(c.problem.dtype));
}

inline bool is_zero(const double* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[i] != 0) return false;
  }
  return true;
}

inline bool d_q_is_zero(const Case& c, const Gradients& g, std::int64_t token) {
  const std::int64_t size = std::int64_t{c.problem.heads} * c.problem.d_qk();
  return is_zero(g.d_q.data() + token * size, size);
}

inline bool d_kv_is_zero(const Case& c, const Gradients& g, std::int64_t row) {
  const std::int64_t size = std::int64_t{c.problem.kv_groups} * c.problem.d_qk();
  return is_zero(g.d_kv.data() + row * size, size);
}

}  // namespace smla_test
