#include "plan/order.h"

#include "base/error.h"
#include "generator/generator.h"

namespace smla::core {
namespace {

// In rows of fp32 sums; those of a deterministic problem take twice the bytes, partial sums half.
constexpr std::int64_t kCallersRows = 12288;       // up to here the sums stay in L2 in any order
constexpr std::int64_t kThrottledRows = 65536;     // from here a sweep drifts apart without a throttle
constexpr std::int64_t kSweptEntries = 4096 * 64;  // of a block's list: a sweep counts in 4096ths (kSweep)

constexpr OrderRequest kOrders[] = {OrderRequest::automatic, OrderRequest::callers, OrderRequest::sorted,
                                    OrderRequest::sorted_throttled};

Order swept(const DeviceFacts& device, bool throttled, std::string_view why) {
  return {.sorted = true,
          .sweep = true,
          .prefetch = throttled,
          .throttle = throttled ? device.ctas_in_flight : 0,
          .why = why};
}

bool bitmaps_fit(const Config& config, const Lengths& lengths, const DeviceFacts& device) noexcept {
  return sort_shared_bytes(lengths.keys, config) <= device.sort_shared_limit;
}

bool has_sweep(const Config& config, const DeviceFacts& device) noexcept {
  return uses_wgmma(config.schedule) && device.sort_shared_limit != 0;
}

}  // namespace

std::string_view name(OrderRequest order) {
  switch (order) {
    case OrderRequest::automatic:
      return "auto";
    case OrderRequest::callers:
      return "caller";
    case OrderRequest::sorted:
      return "sorted";
    case OrderRequest::sorted_throttled:
      return "throttled";
  }
  return "unknown";
}

std::optional<OrderRequest> find_order(std::string_view text) {
  for (const OrderRequest order : kOrders) {
    if (text == name(order)) return order;
  }
  return std::nullopt;
}

bool shares_lists(const Order& one, const Order& other) noexcept {
  return one.sorted && other.sorted && one.concatenate == other.concatenate;
}

bool can_sweep(const Config& config, const Lengths& lengths, const DeviceFacts& device) noexcept {
  return has_sweep(config, device) && bitmaps_fit(config, lengths, device) &&
         lengths.topk <= kSweptEntries / block_tokens(config);
}

namespace {

// choose_order's, with every list a CTA's own.
Order order_of_lists(const Problem& problem, const Config& config, const Lengths& lengths,
                     const DeviceFacts& device, OrderRequest request) {
  if (request < OrderRequest::automatic || request > OrderRequest::sorted_throttled) {
    fail(Status::invalid_argument,
         "order = {} is none of 0 (automatic), 1 (caller's), 2 (sorted), 3 (sorted with "
         "prefetch and throttle) (lengths.order)",
         static_cast<int>(request));
  }
  const int tokens = block_tokens(config);
  const auto unswept = [&](std::string_view why) -> Order {
    return {
        .sorted = tokens > 1, .concatenate = tokens > 1 && !bitmaps_fit(config, lengths, device), .why = why};
  };
  if (request == OrderRequest::callers) return unswept("the caller's order was asked for");

  const bool forced = request != OrderRequest::automatic;
  if (!has_sweep(config, device)) {
    if (forced) {
      fail(Status::not_supported,
           "order = {} needs the schedule wgmma or wgmma_pair, and this plan runs {} (lengths.order); the "
           "nearest that works is 1, the caller's order",
           static_cast<int>(request), name(config.schedule));
    }
    return unswept("this schedule walks lists in the caller's order");
  }

  const bool sweepable = can_sweep(config, lengths, device);
  if (forced && !sweepable) {
    fail(Status::not_supported,
         "order = {}: lists of topk = {} over keys = {} rows cannot be swept (topk up to {}, "
         "and {} of {} bytes of shared memory) (lengths.order); the nearest that works is 1, the caller's "
         "order",
         static_cast<int>(request), lengths.topk, lengths.keys, kSweptEntries / tokens,
         sort_shared_bytes(lengths.keys, config), device.sort_shared_limit);
  }
  if (forced) return swept(device, request == OrderRequest::sorted_throttled, "this order was asked for");

  const std::int64_t rows = lengths.keys * problem.kv_groups;
  if (problem.deterministic && rows <= kCallersRows / 2)
    return unswept("up to 6144 rows the integer sums of d_kv stay in L2 in any order");
  if (problem.accumulate == Accumulate::partial && rows <= 2 * kCallersRows)
    return unswept("up to 24576 rows the fp16 sums of d_kv stay in L2 in any order");
  if (!problem.deterministic && rows <= kCallersRows)
    return unswept("up to 12288 rows the sums of d_kv stay in L2 in any order");
  if (!sweepable) return unswept("lists this long cannot be sorted in shared memory");
  if (problem.deterministic) {
    return swept(
        device, false,
        "above 6144 rows lists are in row order, each from its beginning: the sweep drifts apart, but a "
        "throttle costs more than it saves");
  }
  if (rows < kThrottledRows) {
    return swept(device, false, "above 12288 rows a sorted sweep keeps the sums that are in use in L2");
  }
  return swept(device, true, "from 65536 rows on a sweep needs prefetch and a throttle to stay together");
}

}  // namespace

Order choose_order(const Problem& problem, const Config& config, const Lengths& lengths,
                   const DeviceFacts& device, OrderRequest request) {
  Order order = order_of_lists(problem, config, lengths, device, request);
  order.split = choose_split(problem, config, lengths, device, order.sweep);
  return order;
}

}  // namespace smla::core
