// What lengths of a call are refused, and how they become an order, a workspace and launches.
#include "plan/lengths.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "generator/generator.h"
#include "plan/launches.h"
#include "plan/order.h"
#include "plan/workspace.h"

using namespace smla::core;
using smla_test::contains;

namespace {

const Problem kProblem = {.heads = 64};
const Config kWgmma = {
    .schedule = Schedule::wgmma, .block_h = 64, .block_size = 64, .stages = 1, .threads = 384};
const Config kCpAsync = {
    .schedule = Schedule::cp_async, .block_h = 64, .block_size = 32, .stages = 2, .threads = 256};
const DeviceFacts kH200 = {.multiprocessors = 132, .ctas_in_flight = 132, .sort_shared_limit = 232448};
const std::vector<KernelFacts> kKernels = {{KernelRole::preprocess, "pre", "", 256, 0},
                                           {KernelRole::sort_lists, "sort", "", 256, 0},
                                           {KernelRole::backward, "bwd", "", 384, 231424},
                                           {KernelRole::postprocess, "post", "", 256, 0}};
const Problem kDeterministic = {.heads = 64, .deterministic = true};

template <class Body>
std::string refusal(Body&& body, Status status) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.status() == status);
    return error.what();
  }
  return "nothing was refused";
}

Launches launches_of(const Problem& problem, const Config& config, const Lengths& n) {
  const Order order = choose_order(problem, config, n, kH200);
  std::vector<KernelFacts> kernels = kKernels;
  if (problem.deterministic)
    kernels.insert(kernels.begin() + 1, {KernelRole::row_scales, "scales", "", 256, 0});
  return choose_launches(problem, config, kernels, n, order, workspace_layout(problem, config, n, order));
}

std::vector<KernelRole> roles(const Launches& launches) {
  std::vector<KernelRole> all;
  for (const Launch& l : launches) all.push_back(l.role);
  return all;
}

}  // namespace

TEST_CASE("a negative length and one above 2^31 - 1 are refused by name and value") {
  const auto check = [](const Lengths& n) {
    return refusal([&] { validate(n, kProblem, kWgmma); }, Status::invalid_argument);
  };
  CHECK_THAT(check({-1, 1, 1, 1}), contains("batch = -1 is negative (lengths.batch)"));
  CHECK_THAT(check({1, -7, 1, 1}), contains("queries = -7 is negative (lengths.queries)"));
  CHECK_THAT(check({1, 1, -8, 1}), contains("keys = -8 is negative (lengths.keys)"));
  CHECK_THAT(check({1, 1, 1, 2147483648}), contains("topk = 2147483648 is above 2147483647 (lengths.topk)"));
  CHECK_NOTHROW(validate({0, 0, 0, 0}, kProblem, kWgmma));
  CHECK_NOTHROW(validate({1, 2147483647, 1, 2147483584}, kProblem, kWgmma));
}

TEST_CASE("lists that a kernel cannot round up to whole steps are refused with the longest that works") {
  for (const Config& config : {kWgmma, kCpAsync}) {
    CHECK_THAT(refusal(
                   [&] {
                     validate({1, 1, 1, 2147483585}, kProblem, config);
                   },
                   Status::not_supported),
               contains("topk = 2147483585") && contains("work are 2147483584"));
  }
}

TEST_CASE("more CTAs than a grid has are refused with the most tokens that work") {
  const Problem two_blocks = {.heads = 128};
  CHECK_NOTHROW(validate({1, 1073741823, 1, 1}, two_blocks, kWgmma));
  CHECK_THAT(refusal(
                 [&] {
                   validate({1, 1073741824, 1, 1}, two_blocks, kWgmma);
                 },
                 Status::not_supported),
             contains("the most tokens that work are 1073741823"));
  CHECK_THAT(refusal(
                 [&] {
                   validate({65536, 65536, 1, 1}, kProblem, kWgmma);
                 },
                 Status::not_supported),
             contains("batch * queries = 65536 * 65536"));
}

TEST_CASE("wgmma refuses kv rows that its 32-bit offsets cannot reach and names cp_async") {
  // 0xf0000000 / (576 * 4) = 1747626.67: that many rows of 2304 bytes lie below the sentinel
  CHECK_NOTHROW(validate({1, 1, 1747626, 1}, kProblem, kWgmma));
  CHECK_THAT(refusal(
                 [&] {
                   validate({1, 1, 1747627, 1}, kProblem, kWgmma);
                 },
                 Status::not_supported),
             contains("reaches 1747626 kv rows of 576 columns at most; the schedule cp_async takes more"));
  CHECK_NOTHROW(validate({1, 1, 1747627, 1}, kProblem, kCpAsync));
  // The rows of integer sums have 4864 bytes.
  CHECK_NOTHROW(validate({1, 1, 827823, 1}, kDeterministic, kWgmma));
  CHECK_THAT(refusal(
                 [&] {
                   validate({1, 1, 827824, 1}, kDeterministic, kWgmma);
                 },
                 Status::not_supported),
             contains("reaches 827823 kv rows"));
}

TEST_CASE("wgmma_pair reaches as many kv rows as wgmma, and says so by its own name") {
  const Problem problem = {.heads = 128};
  const Config pair = choose_config(problem, {90, true}).config;
  REQUIRE(pair.schedule == Schedule::wgmma_pair);
  CHECK_NOTHROW(validate({1, 1, 1747626, 1}, problem, pair));
  CHECK_THAT(refusal(
                 [&] {
                   validate({1, 1, 1747627, 1}, problem, pair);
                 },
                 Status::not_supported),
             contains("the schedule wgmma_pair reaches 1747626 kv rows"));
  CHECK(backward_ctas({2, 1000, 4096, 2048}, problem, pair) == 4000);
  CHECK(backward_ctas({2, 1000, 4096, 2048}, {.heads = 256, .kv_groups = 2}, pair) == 8000);
}

TEST_CASE("lengths whose sums overflow 64-bit sizes are refused") {
  const Problem many_groups = {.heads = 65536, .kv_groups = 65536};
  CHECK_THAT(refusal(
                 [&] {
                   validate({2147483647, 0, 2147483647, 1}, many_groups, kCpAsync);
                 },
                 Status::not_supported),
             contains("overflow 64-bit sizes"));
}

TEST_CASE("the order follows the rows of d_kv sums: the caller's, sorted, sorted and throttled") {
  const auto order = [](std::int64_t keys, int groups = 1) {
    return choose_order({.heads = 64 * groups, .kv_groups = groups}, kWgmma, {1, 64, keys, 2048}, kH200);
  };
  CHECK_FALSE(order(12288).sorted);
  CHECK(order(12289).sorted);
  CHECK(order(12289).throttle == 0);
  CHECK_FALSE(order(65535).prefetch);
  CHECK(order(65536).sorted);
  CHECK(order(65536).prefetch);
  CHECK(order(65536).throttle == 132);
  CHECK_FALSE(order(4096, 3).sorted);
  CHECK(order(4097, 3).sorted);
}

TEST_CASE("integer sums of twice the bytes leave L2 at half as many rows, and their sweep has no throttle") {
  const auto order = [](std::int64_t keys) {
    return choose_order(kDeterministic, kWgmma, {1, 64, keys, 2048}, kH200);
  };
  CHECK_FALSE(order(6144).sorted);
  CHECK(order(6145).sorted);
  CHECK(order(6145).throttle == 0);
  CHECK(order(131072).throttle == 0);
  CHECK_FALSE(choose_order(kDeterministic, kWgmma, {1, 64, 6145, 262145}, kH200).sorted);
  CHECK_FALSE(choose_order(kDeterministic, kCpAsync, {1, 64, 6145, 2048}, kH200).sorted);
}

TEST_CASE("an order can be forced, and one that cannot be had is refused with what works") {
  const auto forced = [](OrderRequest request, const Config& config, const Lengths& n) {
    return choose_order(kProblem, config, n, kH200, request);
  };
  const Lengths small = {1, 64, 1024, 64};
  CHECK(forced(OrderRequest::sorted, kWgmma, small).sorted);
  CHECK(forced(OrderRequest::sorted, kWgmma, small).throttle == 0);
  CHECK(forced(OrderRequest::sorted_throttled, kWgmma, small).throttle == 132);
  CHECK_FALSE(forced(OrderRequest::callers, kWgmma, {1, 64, 131072, 64}).sorted);
  CHECK_THAT(refusal([&] { forced(OrderRequest::sorted, kCpAsync, small); }, Status::not_supported),
             contains("order = 2 needs the schedule wgmma or wgmma_pair, and this plan runs cp_async"));
  CHECK_THAT(refusal(
                 [&] {
                   forced(OrderRequest::sorted, kWgmma, {1, 64, 1024, 262145});
                 },
                 Status::not_supported),
             contains("topk = 262145 over keys = 1024 rows cannot be swept"));
  CHECK_THAT(refusal([&] { forced(static_cast<OrderRequest>(7), kWgmma, small); }, Status::invalid_argument),
             contains("order = 7 is none of"));
}

TEST_CASE("lists that cannot be sorted keep the caller's order") {
  CHECK_FALSE(choose_order(kProblem, kCpAsync, {1, 64, 131072, 2048}, kH200).sorted);
  CHECK_FALSE(choose_order(kProblem, kWgmma, {1, 64, 131072, 262145}, kH200).sorted);
  // A bit a row: 232448 bytes, less 1072 for sums, hold 1.85 M rows
  CHECK(choose_order(kProblem, kWgmma, {1, 64, 1851008, 2048}, kH200).sorted);
  CHECK_FALSE(choose_order(kProblem, kWgmma, {1, 64, 1851009, 2048}, kH200).sorted);
}

TEST_CASE("blocks of several tokens share lists of the pre-pass at every length") {
  const Problem problem = {.heads = 16};
  Config config = kWgmma;
  config.block_h = 16;
  REQUIRE(block_tokens(config) == 4);

  const Order order = choose_order(problem, config, {1, 64, 4096, 2048}, kH200);
  CHECK(order == Order{.sorted = true, .split = {16, 8}, .why = order.why});
  CHECK(choose_order(problem, config, {1, 64, 12289, 2048}, kH200).sweep);
  CHECK_FALSE(choose_order(problem, config, {1, 64, 32768, 2048}, kH200, OrderRequest::callers).sweep);
  CHECK(choose_order(problem, config, {1, 64, 32768, 2048}, kH200, OrderRequest::callers).sorted);

  // A bit a row and token
  CHECK_FALSE(choose_order(problem, config, {1, 64, 462752, 2048}, kH200).concatenate);
  const Order joined = choose_order(problem, config, {1, 64, 462753, 2048}, kH200);
  CHECK(joined == Order{.sorted = true, .concatenate = true, .split = {16, 8}, .why = joined.why});

  const Lengths n = {2, 33, 4096, 101};  // 9 blocks of a batch entry, the last of 1 token
  const WorkspaceLayout w = workspace_layout(problem, config, n, order);
  CHECK(w.list_length.bytes == 2 * 33 * 4);
  CHECK(w.block_length.bytes == 2 * 9 * 4);
  CHECK(w.sorted_pitch == 404);
  CHECK(w.sorted_lists.bytes == 2 * 9 * 404 * 4);

  const Launches l = launches_of(problem, config, n);
  REQUIRE(roles(l) == std::vector{KernelRole::preprocess, KernelRole::sort_lists, KernelRole::backward,
                                  KernelRole::postprocess});
  CHECK(l.launch[1].grid == 18);
  CHECK(l.launch[2].grid == 18 * 7);  // a CTA a tile
}

TEST_CASE("workspace pieces are 256-byte aligned, apart, and the counters end the zeroed range") {
  const Lengths n = {2, 33, 20000, 101};
  const Problem problem = {.heads = 40, .kv_groups = 5};
  const WorkspaceLayout w = workspace_layout(problem, kWgmma, n, {.sorted = true});
  CHECK(w.row_lse.bytes == 2 * 33 * 40 * 4);
  CHECK(w.row_delta.bytes == 2 * 33 * 40 * 4);
  CHECK(w.list_length.bytes == 2 * 33 * 5 * 4);
  CHECK(w.sorted_pitch == 104);
  CHECK(w.sorted_lists.bytes == std::int64_t{2} * 33 * 5 * 104 * 4);
  CHECK(w.d_kv_sum.bytes == std::int64_t{2} * 5 * 20000 * 576 * 4);
  CHECK(w.counters.bytes == 64);
  CHECK(w.counters.offset == w.d_kv_sum.offset + w.d_kv_sum.bytes);
  CHECK((w.d_kv_sum.bytes + w.counters.bytes) % 16 == 0);
  CHECK(w.bytes == w.counters.offset + w.counters.bytes);
  std::int64_t end = 0;
  for (const auto& piece : {w.row_lse, w.row_delta, w.list_length, w.lists, w.d_kv_sum}) {
    CHECK(piece.offset % 256 == 0);
    CHECK(piece.offset >= end);
    CHECK(piece.offset < end + 256);
    end = piece.offset + piece.bytes;
  }
  CHECK(w.block_length.offset == 0);  // in the lists
  CHECK(w.block_length.bytes == 2 * 33 * 5 * 4);
  CHECK(w.sorted_lists.offset == 1536);
  CHECK(w.lists.bytes == (1536 + w.sorted_lists.bytes + 255) / 256 * 256);
}

TEST_CASE("integer sums take 8 bytes an element and 256 a row, and a list 64 bytes of bounds") {
  const Lengths n = {2, 33, 1000, 101};
  Problem problem = {.heads = 40, .kv_groups = 5, .d_tail = 0};
  CHECK(workspace_layout(problem, kWgmma, n, {}).list_bounds.bytes == 0);
  problem.deterministic = true;
  const WorkspaceLayout w = workspace_layout(problem, kWgmma, n, {});
  CHECK(w.d_kv_sum.bytes == 2 * 5 * 1000 * (512 * 8 + 256));
  CHECK(w.list_bounds.bytes == 2 * 33 * 5 * 64);
  CHECK(w.list_bounds.offset % 256 == 0);
  CHECK(w.d_kv_sum.offset >= w.list_bounds.offset + w.list_bounds.bytes);
  CHECK(w.counters.offset == w.d_kv_sum.offset + w.d_kv_sum.bytes);
}

TEST_CASE("sorted lists and their lengths take workspace only in sorted order") {
  const Lengths n = {1, 4096, 4096, 2048};
  const WorkspaceLayout callers = workspace_layout(kProblem, kWgmma, n, {});
  const WorkspaceLayout sorted = workspace_layout(kProblem, kWgmma, n, {.sorted = true});
  CHECK(callers.lists.bytes == 0);
  CHECK(sorted.lists.bytes == std::int64_t{4096} * 2048 * 4 + 4096 * 4);
  CHECK(sorted.bytes == callers.bytes + sorted.lists.bytes);
}

TEST_CASE("lists that the caller keeps leave the workspace by just their size, whatever the lengths") {
  const Problem problem = {.heads = 40, .kv_groups = 5};
  for (std::int64_t i = 1; i < 40; ++i) {
    const Lengths n = {1 + i % 3, 7 * i, 100 * i, 3 * i};
    const WorkspaceLayout inside = workspace_layout(problem, kWgmma, n, {.sorted = true});
    const WorkspaceLayout outside = workspace_layout(problem, kWgmma, n, {.sorted = true}, true);
    CHECK(outside.lists == WorkspaceLayout::Piece{0, inside.lists.bytes});
    CHECK(outside.block_length == inside.block_length);
    CHECK(outside.sorted_lists == inside.sorted_lists);
    CHECK(outside.bytes == inside.bytes - inside.lists.bytes);
    CHECK(outside.sorted_lists.offset + outside.sorted_lists.bytes <= outside.lists.bytes);
  }
}

TEST_CASE("with lists that are ready the pre-pass is left out") {
  const Lengths n = {1, 64, 32768, 2048};
  const Order order = choose_order(kProblem, kWgmma, n, kH200);
  const WorkspaceLayout w = workspace_layout(kProblem, kWgmma, n, order, true);
  CHECK(roles(choose_launches(kProblem, kWgmma, kKernels, n, order, w)) ==
        std::vector{KernelRole::preprocess, KernelRole::sort_lists, KernelRole::backward,
                    KernelRole::postprocess});
  CHECK(roles(choose_launches(kProblem, kWgmma, kKernels, n, order, w, true)) ==
        std::vector{KernelRole::preprocess, KernelRole::backward, KernelRole::postprocess});
}

TEST_CASE("two orders share lists where both have a pre-pass of one kind") {
  CHECK(shares_lists({.sorted = true}, {.sorted = true, .sweep = true, .prefetch = true, .throttle = 132}));
  CHECK_FALSE(shares_lists({.sorted = true}, {.sorted = true, .concatenate = true}));
  CHECK_FALSE(shares_lists({.sorted = true}, {}));
  CHECK_FALSE(shares_lists({}, {}));
}

TEST_CASE("a workspace beyond 64 bits is refused") {
  const Lengths n = {2147483647, 2147483647, 2147483647, 1};
  CHECK_THAT(refusal([&] { workspace_layout(kProblem, kWgmma, n, {}); }, Status::not_supported),
             contains("workspace"));
}

TEST_CASE("a call launches preprocess, backward and postprocess with their grids") {
  const Launches l = launches_of({.heads = 128}, kWgmma, {2, 1000, 4096, 2048});
  REQUIRE(roles(l) == std::vector{KernelRole::preprocess, KernelRole::backward, KernelRole::postprocess});
  CHECK(l.launch[0] == Launch{KernelRole::preprocess, 2000, 256, 0});
  CHECK(l.launch[1] == Launch{KernelRole::backward, 3960 + 40 * 3, 384, 231424});  // 30 waves and 40 lists
  CHECK(l.launch[2] == Launch{KernelRole::postprocess, 40 * 36, 256, 0});          // 36,864 elements of d_q
  const Launches whole = launches_of({.heads = 128}, kWgmma, {2, 990, 4096, 2048});
  CHECK(whole.launch[1].grid == 3960);
  CHECK(whole.launch[2].grid == 1024);  // 8192 rows, 8 a CTA
}

TEST_CASE("the last wave's lists are split over the CTAs that would be idle") {
  const auto split = [](const Lengths& n, const Problem& problem = kProblem, const Config& config = kWgmma,
                        OrderRequest request = OrderRequest::automatic) {
    return choose_order(problem, config, n, kH200, request).split;
  };
  CHECK(split({1, 4096, 4096, 2048}) == Split{4, 32});  // 31 waves and 4 lists, a CTA a tile
  CHECK(split({1, 8192, 8192, 2048}) == Split{8, 16});
  CHECK(split({1, 16, 4096, 2048}) == Split{16, 8});
  CHECK(split({1, 1, 4096, 2048}) == Split{1, 32});
  CHECK(split({1, 1, 12288, 12288}) == Split{1, 96});  // two tiles each: 132 CTAs are not enough for one
  CHECK(split({2, 4096, 4096, 2048}, {.heads = 128}) == Split{16, 8});
  CHECK(split({1, 66, 4096, 2048}) == Split{66, 2});
  CHECK(split({1, 20, 4096, 2048}) == Split{20, 6});  // of 6 tiles, the last of 2
  CHECK(split({1, 4096, 200, 2048}) == Split{4, 4});  // a list names 200 rows at most
  CHECK(split({1, 4096, 4096, 2048}, {.heads = 64, .accumulate = Accumulate::partial}) == Split{4, 32});

  CHECK(split({1, 132 * 31, 4096, 2048}) == Split{});
  CHECK(split({1, 67, 4096, 2048}) == Split{});
  CHECK(split({1, 4, 4096, 192}) == Split{});  // would save two tiles and cost as much
  CHECK(split({1, 4, 4096, 193}) == Split{4, 4});
  CHECK(split({1, 66, 4096, 256}) == Split{});
  CHECK(split({1, 0, 4096, 2048}) == Split{});
  CHECK(split({1, 4, 0, 2048}) == Split{});
  CHECK(split({1, 4, 4096, 2048}, kDeterministic) == Split{});
  CHECK(split({1, 4, 4096, 2048}, kProblem, kCpAsync) == Split{});
  CHECK(split({1, 4, 16384, 2048}) == Split{});  // swept
  CHECK(split({1, 4, 4096, 2048}, kProblem, kWgmma, OrderRequest::sorted) == Split{});
  CHECK(split({1, 4, 16384, 2048}, kProblem, kWgmma, OrderRequest::callers) == Split{4, 32});
  CHECK(split({1, 2147483647, 4096, 2048}) == Split{});  // the grid has no room
}

TEST_CASE("a wave of clusters ends with a whole one, also where the SMs are odd") {
  const Problem problem = {.heads = 128};
  const Config pair = choose_config(problem, parse_arch("sm_90a")).config;
  REQUIRE(cluster_ctas(pair) == 2);
  const auto split = [&](int ctas, const Lengths& n) {
    return choose_order(problem, pair, n, {.multiprocessors = ctas, .ctas_in_flight = ctas}).split;
  };
  CHECK(split(132, {1, 4096, 4096, 2048}) == Split{8, 16});  // 4 tokens
  CHECK(split(17, {1, 9, 4096, 2048}) == Split{2, 8});       // 16 CTAs and a token
  CHECK(split(17, {1, 16, 4096, 2048}) == Split{});
  CHECK(split(1, {1, 16, 4096, 2048}) == Split{});
}

TEST_CASE("shares of a list have workspace for their d_q, 64 rows of fp32 each") {
  const Lengths n = {1, 4096, 4096, 2048};
  const Order order = choose_order(kProblem, kWgmma, n, kH200);
  Order whole = order;
  whole.split = {};
  const WorkspaceLayout w = workspace_layout(kProblem, kWgmma, n, order);
  CHECK(w.d_q_shares.bytes == std::int64_t{4} * 32 * 64 * 576 * 4);
  CHECK(w.d_q_shares.offset % 256 == 0);
  CHECK(w.bytes == workspace_layout(kProblem, kWgmma, n, whole).bytes + w.d_q_shares.bytes);
}

TEST_CASE("sorted lists add a pre-pass of one CTA a list") {
  const Problem groups = {.heads = 128, .kv_groups = 2};
  const Launches l = launches_of(groups, kWgmma, {1, 1000, 8192, 2048});
  REQUIRE(roles(l) == std::vector{KernelRole::preprocess, KernelRole::sort_lists, KernelRole::backward,
                                  KernelRole::postprocess});
  CHECK(l.launch[1].grid == 2000);
  CHECK(l.launch[1].shared_bytes == sort_shared_bytes(8192, kWgmma));
}

TEST_CASE("deterministic: row_scales runs before the backward, a whole number of CTAs a group") {
  const Launches l = launches_of(kDeterministic, kWgmma, {2, 1000, 4096, 2048});
  REQUIRE(roles(l) == std::vector{KernelRole::preprocess, KernelRole::row_scales, KernelRole::backward,
                                  KernelRole::postprocess});
  CHECK(l.launch[1].grid == 2 * 64);  // 64 rows a CTA
  CHECK(launches_of(kDeterministic, kWgmma, {2, 1000, 6000, 2048}).launch[1].grid == 2 * 94);
  CHECK(launches_of(kDeterministic, kCpAsync, {100, 10, 1000000, 64}).launch[1].grid == 100 * 2);
  CHECK(launches_of(kDeterministic, kCpAsync, {1000, 10, 1000000, 64}).launch[1].grid == 1000);
  CHECK(launches_of(kDeterministic, kCpAsync, {1, 1, 1, 1}).launch[1].grid == 1);
  CHECK(launches_of(kDeterministic, kWgmma, {1, 1000, 131072, 2048}).count == 5);
  CHECK(roles(launches_of(kDeterministic, kWgmma, {1, 0, 4096, 64})) ==
        std::vector{KernelRole::preprocess, KernelRole::postprocess});
  CHECK(roles(launches_of(kDeterministic, kWgmma, {1, 70, 0, 64})) ==
        std::vector{KernelRole::preprocess, KernelRole::backward, KernelRole::postprocess});
}

TEST_CASE("few tokens over many rows still zero with many CTAs, and many rows are strided over") {
  const Launches l = launches_of(kProblem, kCpAsync, {1, 3, 1000000, 64});
  CHECK(l.launch[0].grid == 1024);
  CHECK(l.launch[2].grid == 2112);
  const Launches one = launches_of(kProblem, kCpAsync, {1, 1, 1, 1});
  for (const Launch& launch : one) CHECK(launch.grid == 1);
}

TEST_CASE("C18: without query tokens d_kv is zero-filled by the two small kernels") {
  const Launches l = launches_of(kProblem, kWgmma, {1, 0, 4096, 2048});
  CHECK(roles(l) == std::vector{KernelRole::preprocess, KernelRole::postprocess});
  for (const Launch& launch : l) CHECK(launch.grid > 0);
}

TEST_CASE("without kv rows the backward still runs, so that d_q is zero-filled") {
  const Launches l = launches_of(kProblem, kWgmma, {1, 70, 0, 64});
  CHECK(roles(l) == std::vector{KernelRole::preprocess, KernelRole::backward, KernelRole::postprocess});
  for (const Launch& launch : l) CHECK(launch.grid > 0);
}

TEST_CASE("without batch entries only a d_sink is left to write") {
  CHECK(launches_of(kProblem, kWgmma, {0, 4096, 4096, 64}).count == 0);
  const Launches l = launches_of({.heads = 64, .has_sink = true}, kWgmma, {0, 4096, 4096, 64});
  CHECK(roles(l) == std::vector{KernelRole::preprocess, KernelRole::postprocess});
}

TEST_CASE("partial sums: groups of tokens are as large as 128 additions a row allow, 64 where rows are hot") {
  Problem problem = {.heads = 64, .accumulate = Accumulate::partial};
  const Lengths n = {1, 1000, 4096, 2048};
  CHECK(group_tokens(problem, kWgmma, n) == 128);
  CHECK(token_groups(problem, kWgmma, n) == 8);
  CHECK(group_tokens(problem, kWgmma, {1, 1000, 3072, 2048}) == 128);
  CHECK(group_tokens(problem, kWgmma, {1, 1000, 3071, 2048}) == 64);
  problem.causal = true;
  CHECK(group_tokens(problem, kWgmma, n) == 64);
  problem = {.heads = 256, .accumulate = Accumulate::partial};
  CHECK(group_tokens(problem, kWgmma, n) == 32);  // four head blocks add to a row
  problem.heads = 16;
  Config config = kWgmma;
  config.block_h = 16;
  CHECK(group_tokens(problem, config, {1, 1000, 16384, 2048}) == 512);  // four tokens add once,
  CHECK(group_tokens(problem, config, n) == 256);                       // and here to nearly every row

  const Order order = choose_order(problem, config, n, kH200);
  const WorkspaceLayout w = workspace_layout(problem, config, n, order);
  CHECK(w.token_groups == 4);
  CHECK(w.d_kv_sum.bytes == std::int64_t{4} * 4096 * 576 * 2);
  CHECK(w.row_norms.bytes == 4096 * 4);
  CHECK(w.group_exponent.bytes == 4 * 4);
  CHECK(w.list_bounds.bytes == 1000 * 8 * 2 * 4);
}

TEST_CASE("partial sums are refused beyond 16384 rows, with what works") {
  const Problem problem = {.heads = 64, .accumulate = Accumulate::partial};
  validate({1, 64, 16384, 2048}, problem, kWgmma);
  CHECK_THAT(refusal(
                 [&] {
                   validate({1, 64, 16385, 2048}, problem, kWgmma);
                 },
                 Status::not_supported),
             contains("keys = 16385") && contains("16384") && contains("accumulate = fp32"));
}
