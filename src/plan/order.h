// The order in which a CTA walks its token's list.
#pragma once

#include <cstdint>
#include <string_view>

#include "config/config.h"
#include "plan/device_facts.h"
#include "plan/lengths.h"
#include "problem/problem.h"

namespace smla::core {

enum class OrderRequest {
  automatic = 0,  // choose_order's rule
  callers = 1,    // as the list stands: d_q repeats bit for bit
  sorted = 2,     // lists sorted by row, all CTAs sweep the same band of rows
  sorted_throttled =
      3,  // the same, with L2 prefetch of the next tile's sums and a throttle on CTAs that run ahead
};

struct Order {
  bool sorted = false;
  bool prefetch = false;
  int throttle = 0;           // CTA-tiles that a CTA may be ahead of the grid's mean; 0: no throttle
  std::string_view why = {};  // one sentence

  bool operator==(const Order&) const = default;
};

// The rule, by rows of d_kv sums (keys * kv_groups). The sums of 24k rows (56 MB) fill the L2 of a Hopper
// GPU; beyond, reductions in random order fall from 28.7 to 16 GB/s an SM (kernels.md, "Long contexts"; H200,
// H = 64, topk 2048: 32k rows 222 TFLOPS in the caller's order, 435 sorted; 128k rows 355 sorted with
// prefetch and throttle).
//   <= 12288          the caller's order: it fits, and sorting costs a pre-pass
//   above, to 65535   sorted
//   >= 65536          sorted, with prefetch and throttle
// The schedule cp_async has the caller's order alone. A list that the pre-pass cannot sort (topk above 16384,
// or a bit a row beyond shared memory) keeps the caller's order; asking for another by name is then Error
// not_supported.
Order choose_order(const Problem& problem, const Config& config, const Lengths& lengths,
                   const DeviceFacts& device, OrderRequest request = OrderRequest::automatic);

}  // namespace smla::core
