#include "plan/order.h"

#include "base/error.h"
#include "generator/generator.h"

namespace smla::core {
namespace {

constexpr std::int64_t kCallersRows = 12288;    // up to here the sums stay in L2 in any order
constexpr std::int64_t kThrottledRows = 65536;  // from here a sweep drifts apart without a throttle
constexpr std::int64_t kSortTopk = 16384;       // entries that the pre-pass sorts

Order sorted_order(const DeviceFacts& device, bool throttled, std::string_view why) {
  return {true, throttled, throttled ? device.ctas_in_flight : 0, why};
}

}  // namespace

Order choose_order(const Problem& problem, const Config& config, const Lengths& lengths,
                   const DeviceFacts& device, OrderRequest request) {
  if (request < OrderRequest::automatic || request > OrderRequest::sorted_throttled) {
    fail(Status::invalid_argument,
         "order = {} is none of 0 (automatic), 1 (caller's), 2 (sorted), 3 (sorted with "
         "prefetch and throttle) (lengths.order)",
         static_cast<int>(request));
  }
  if (request == OrderRequest::callers) return {false, false, 0, "the caller's order was asked for"};

  const bool forced = request != OrderRequest::automatic;
  if (config.schedule != Schedule::wgmma || device.sort_shared_limit == 0) {
    if (forced) {
      fail(Status::not_supported,
           "order = {} needs the schedule wgmma, and this plan runs {} (lengths.order); the "
           "nearest that works is 1, the caller's order",
           static_cast<int>(request), name(config.schedule));
    }
    return {false, false, 0, "this schedule walks lists in the caller's order"};
  }

  const bool sortable =
      lengths.topk <= kSortTopk && sort_shared_bytes(lengths.keys, lengths.topk) <= device.sort_shared_limit;
  if (forced && !sortable) {
    fail(Status::not_supported,
         "order = {}: lists of topk = {} over keys = {} rows cannot be sorted (topk up to {}, "
         "and {} of {} bytes of shared memory) (lengths.order); the nearest that works is 1, the caller's "
         "order",
         static_cast<int>(request), lengths.topk, lengths.keys, kSortTopk,
         sort_shared_bytes(lengths.keys, lengths.topk), device.sort_shared_limit);
  }
  if (forced) {
    return sorted_order(device, request == OrderRequest::sorted_throttled, "this order was asked for");
  }

  const std::int64_t rows = lengths.keys * problem.kv_groups;
  if (rows <= kCallersRows)
    return {false, false, 0, "up to 12288 rows the sums of d_kv stay in L2 in any order"};
  if (!sortable) return {false, false, 0, "lists this long cannot be sorted in shared memory"};
  if (rows < kThrottledRows) {
    return sorted_order(device, false,
                        "above 12288 rows a sorted sweep keeps the sums that are in use in L2");
  }
  return sorted_order(device, true,
                      "from 65536 rows on a sweep needs prefetch and a throttle to stay together");
}

}  // namespace smla::core
