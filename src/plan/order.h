// The order in which a CTA walks its list, who writes that list, and whether CTAs share it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "config/config.h"
#include "plan/device_facts.h"
#include "plan/lengths.h"
#include "plan/split.h"
#include "problem/problem.h"

namespace smla::core {

enum class OrderRequest {
  automatic = 0,  // choose_order's rule
  callers = 1,    // as the list stands, or in row order where a block's tokens share one: d_q repeats bit for
                  // bit on a device, as it does in every order of a deterministic problem on any
  sorted = 2,     // lists sorted by row, all CTAs sweep the same band of rows
  sorted_throttled =
      3,  // the same, with L2 prefetch of the next tile's sums and a throttle on CTAs that run ahead
};

// "auto", "caller", "sorted" or "throttled": the words of --order and of a tuning file.
std::string_view name(OrderRequest order);
std::optional<OrderRequest> find_order(std::string_view text);

struct Order {
  bool sorted = false;       // the backward walks the lists of the pre-pass, not the caller's
  bool concatenate = false;  // the pre-pass joins the lists of a block's tokens and cannot sort them
  bool sweep = false;        // a CTA starts its list where the grid is
  bool prefetch = false;
  int throttle = 0;           // CTA-tiles that a CTA may be ahead of the grid's mean; 0: no throttle
  Split split = {};           // of the last wave's lists: choose_split's
  std::string_view why = {};  // one sentence

  bool operator==(const Order&) const = default;
};

// Whether calls of the same lengths and blocks of tokens in these two orders read the same lists of a
// pre-pass.
bool shares_lists(const Order& one, const Order& other) noexcept;

// Whether lists of these lengths can be sorted and swept on the device by a plan of this config.
bool can_sweep(const Config& config, const Lengths& lengths, const DeviceFacts& device) noexcept;

// The rule, by rows of d_kv sums (keys * kv_groups). The sums of 24k rows (56 MB) fill the L2 of a Hopper
// GPU; beyond, reductions in random order fall from 28.7 to 16 GB/s an SM (kernels.md, "Long contexts"; H200,
// H = 64, topk 2048: 32k rows 222 TFLOPS in the caller's order, 435 sorted; 128k rows 355 sorted with
// prefetch and throttle).
//   <= 12288          the caller's order: it fits, and sorting costs a pre-pass
//   above, to 65535   sorted and swept
//   >= 65536          the same, with prefetch and throttle
// A deterministic problem has sums of twice the bytes, and sweeps that start at the beginning of every list,
// so that d_q repeats: up to 6144 rows the caller's order, above them sorted and swept without a throttle
// (32k rows, ms: caller's 208, sorted 205, throttled 221). Blocks of several tokens share a list, so they
// have the pre-pass at every length, and up to 12288 rows each starts at a place of its own. The schedule
// cp_async has the caller's order alone. Lists that cannot be swept (a block's of more than 262,144 entries,
// or a bit a row and token beyond shared memory) keep the caller's order; asking for another by name is then
// Error not_supported.
Order choose_order(const Problem& problem, const Config& config, const Lengths& lengths,
                   const DeviceFacts& device, OrderRequest request = OrderRequest::automatic);

}  // namespace smla::core
