// The inputs of a call as forward and backward read them: kv in double, rows by their addresses.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/half.h"
#include "reference/host_tensors.h"
#include "reference/parallel.h"

namespace smla::core::reference {

inline constexpr double kLn2 = 0.693147180559945309417;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline std::size_t size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

inline void widen(DType dtype, const std::uint16_t* from, std::int64_t count, double* to) {
  if (dtype == DType::bf16) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(bf16_to_float(from[i]));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(fp16_to_float(from[i]));
  }
}

// log(exp(a) + exp(b)) without overflow; -inf is the log of nothing.
inline double log_add_exp(double a, double b) {
  const double high = std::max(a, b);
  if (std::isinf(high)) return high;
  return high + std::log1p(std::exp(std::min(a, b) - high));
}

// The inputs of a call, with what several rows need.
struct Call {
  const Problem& problem;
  const HostTensors& tensors;
  std::vector<double> kv;  // [B, S_kv, G, d_qk]

  Call(const Problem& p, const HostTensors& t) : problem(p), tensors(t), kv(t.kv.size()) {
    const std::int64_t row = std::int64_t{p.kv_groups} * p.d_qk();
    parallel_for(t.batch * t.keys,
                 [&](std::int64_t i) { widen(p.dtype, t.kv.data() + i * row, row, kv.data() + i * row); });
  }

  const double* kv_row(std::int64_t b, std::int64_t row, std::int64_t g) const {
    return kv.data() + ((b * tensors.keys + row) * problem.kv_groups + g) * problem.d_qk();
  }

  std::vector<const double*> kv_rows(std::int64_t b, std::int64_t s, std::int64_t g) const {
    std::vector<const double*> rows;
    for (const std::int32_t row : attended_rows(problem, tensors, b, s, g)) rows.push_back(kv_row(b, row, g));
    return rows;
  }

  // First (token, head) row of a group, counted in rows of H.
  std::int64_t head_row(std::int64_t token, std::int64_t g) const {
    return token * problem.heads + g * problem.heads_per_group();
  }
};

// Sum over d_v of the saved o times d_o, of one (token, head) row.
inline double delta_of_row(const Problem& p, const HostTensors& t, std::int64_t head_row) {
  double sum = 0;
  for (std::int64_t c = head_row * p.d_v; c < (head_row + 1) * p.d_v; ++c) {
    sum += static_cast<double>(to_float(p.dtype, t.o[size(c)])) *
           static_cast<double>(to_float(p.dtype, t.d_o[size(c)]));
  }
  return sum;
}

}  // namespace smla::core::reference
