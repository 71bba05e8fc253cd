// Bad tensors and scalars are refused by name and value, before anything is launched.
#include "plan/call.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "catch.h"
#include "plan/arguments.h"

using namespace smla::core;
using smla_test::contains;

namespace {

const Config kCpAsync = {.schedule = Schedule::cp_async};
const Problem kAll = {.heads = 64, .has_sink = true, .has_topk_length = true};

void* at(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

// Every tensor at an address of its own, far apart.
Call good_call(const Problem& problem, const Lengths& lengths = {2, 100, 300, 64}) {
  Call c;
  c.lengths = lengths;
  set_contiguous_strides(c, problem);
  std::uintptr_t next = 0x10000000000;
  const auto place = [&] { return at(next += 0x1000000000); };
  for (Tensor* t : {&c.q, &c.kv, &c.d_o, &c.indices, &c.lse, &c.d_q, &c.d_kv}) t->data = place();
  if (!problem.has_delta) c.o.data = place();
  if (problem.has_topk_length) c.topk_length.data = place();
  if (problem.has_delta) c.delta.data = place();
  if (problem.has_sink) {
    c.attn_sink = place();
    c.d_sink = place();
  }
  c.scale = default_scale(problem);
  c.workspace = place();
  c.workspace_bytes = std::size_t{1} << 30;
  return c;
}

// What is said of a good call after a change.
template <class Change>
std::string refusal(Change&& change, const Problem& problem = kAll,
                    const Lengths& lengths = {2, 100, 300, 64}) {
  Call call = good_call(problem, lengths);
  change(call);
  try {
    validate(call, problem, kCpAsync);
  } catch (const Error& error) {
    CHECK(error.status() == Status::invalid_argument);
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("a contiguous call is accepted") {
  CHECK_NOTHROW(validate(good_call(kAll), kAll, kCpAsync));
  const Problem delta = {.heads = 16, .d_tail = 0, .has_delta = true, .d_kv_type = DkvType::fp32};
  CHECK_NOTHROW(validate(good_call(delta), delta, kCpAsync));
}

TEST_CASE("a null pointer of a non-empty tensor is refused by name and shape") {
  CHECK_THAT(refusal([](Call& c) { c.q.data = nullptr; }),
             contains("q is null, and its shape is [2, 100, 64, 576]"));
  CHECK_THAT(refusal([](Call& c) { c.kv.data = nullptr; }),
             contains("kv is null, and its shape is [2, 300, 1, 576]"));
  CHECK_THAT(refusal([](Call& c) { c.o.data = nullptr; }),
             contains("o is null, and its shape is [2, 100, 64, 512]"));
  CHECK_THAT(refusal([](Call& c) { c.d_o.data = nullptr; }), contains("d_o is null"));
  CHECK_THAT(refusal([](Call& c) { c.indices.data = nullptr; }),
             contains("indices is null, and its shape is [2, 100, 1, 64]"));
  CHECK_THAT(refusal([](Call& c) { c.topk_length.data = nullptr; }), contains("topk_length is null"));
  CHECK_THAT(refusal([](Call& c) { c.lse.data = nullptr; }), contains("lse is null"));
  CHECK_THAT(refusal([](Call& c) { c.attn_sink = nullptr; }), contains("attn_sink is null"));
  CHECK_THAT(refusal([](Call& c) { c.d_q.data = nullptr; }), contains("d_q is null"));
  CHECK_THAT(refusal([](Call& c) { c.d_kv.data = nullptr; }), contains("d_kv is null"));
  CHECK_THAT(refusal([](Call& c) { c.d_sink = nullptr; }), contains("d_sink is null"));
  const Problem delta = {.heads = 64, .has_delta = true};
  CHECK_THAT(refusal([](Call& c) { c.delta.data = nullptr; }, delta), contains("delta is null"));
}

TEST_CASE("pointers of empty tensors may be null") {
  const Problem problem = {.heads = 64};
  Call call = good_call(problem, {1, 0, 300, 64});
  for (Tensor* t : {&call.q, &call.o, &call.d_o, &call.indices, &call.lse, &call.d_q}) t->data = nullptr;
  CHECK_NOTHROW(validate(call, problem, kCpAsync));
  call = good_call(problem, {1, 100, 0, 64});
  call.kv.data = call.d_kv.data = nullptr;
  CHECK_NOTHROW(validate(call, problem, kCpAsync));
  CHECK_THAT(refusal([](Call& c) { c.d_kv.data = nullptr; }, problem, {1, 0, 300, 64}),
             contains("d_kv is null"));
}

TEST_CASE("a tensor that the problem does not have is refused, since it would be ignored") {
  const Problem plain = {.heads = 64};
  CHECK_THAT(refusal([](Call& c) { c.topk_length.data = at(64); }, plain),
             contains("topk_length = 0x40 is given"));
  CHECK_THAT(refusal([](Call& c) { c.delta.data = at(64); }, plain), contains("delta = 0x40 is given"));
  CHECK_THAT(refusal([](Call& c) { c.attn_sink = at(64); }, plain), contains("attn_sink = 0x40 is given"));
  CHECK_THAT(refusal([](Call& c) { c.d_sink = at(64); }, plain), contains("d_sink = 0x40 is given"));
}

TEST_CASE("C35: vector tensors need 16-byte pointers, others their natural alignment") {
  const auto move = [](Tensor& t, std::uintptr_t by) {
    t.data = at(reinterpret_cast<std::uintptr_t>(t.data) + by);
  };
  CHECK_THAT(refusal([&](Call& c) { move(c.q, 2); }),
             contains("q = ") && contains("is not a multiple of 16 bytes"));
  CHECK_THAT(refusal([&](Call& c) { move(c.kv, 8); }), contains("kv = ") && contains("16 bytes"));
  CHECK_THAT(refusal([&](Call& c) { move(c.o, 4); }), contains("o = ") && contains("16 bytes"));
  CHECK_THAT(refusal([&](Call& c) { move(c.d_o, 2); }), contains("d_o = ") && contains("16 bytes"));
  CHECK_THAT(refusal([&](Call& c) { move(c.d_q, 2); }), contains("d_q = ") && contains("16 bytes"));
  CHECK_THAT(refusal([&](Call& c) { move(c.d_kv, 2); }), contains("d_kv = ") && contains("16 bytes"));
  CHECK_THAT(refusal([&](Call& c) { move(c.lse, 2); }), contains("lse = ") && contains("4 bytes"));
  CHECK_THAT(refusal([&](Call& c) { move(c.indices, 1); }), contains("indices = ") && contains("4 bytes"));
  Call slice = good_call(kAll);  // a tensor-parallel slice
  move(slice.lse, 4);
  move(slice.indices, 12);
  slice.attn_sink = static_cast<const char*>(slice.attn_sink) + 4;
  slice.d_sink = static_cast<char*>(slice.d_sink) + 4;
  CHECK_NOTHROW(validate(slice, kAll, kCpAsync));
}

TEST_CASE("C35: strides are checked where a dimension is longer than 1, and nowhere else") {
  CHECK_THAT(
      refusal([](Call& c) { c.q.strides[2] = 578; }),
      contains("q's head stride = 578 elements is not a multiple of 8 (16 bytes) (call.q.strides[2])"));
  CHECK_THAT(refusal([](Call& c) { c.kv.strides[1] = -576; }),
             contains("kv's token stride = -576 is negative"));
  CHECK_THAT(refusal([](Call& c) { c.lse.strides[0] = -1; }),
             contains("lse's batch stride = -1 is negative"));
  CHECK_THAT(refusal([](Call& c) { c.o.strides[0] = std::int64_t{1} << 62; }), contains("leaves the 64-bit"));
  CHECK_THAT(refusal([](Call& c) { c.d_q.strides[1] = std::numeric_limits<std::int64_t>::max() - 7; }),
             contains("leaves the 64-bit"));
  CHECK(refusal([](Call& c) { c.kv.strides[2] = -3; }) == "nothing was refused");  // one kv group
  CHECK(refusal([](Call& c) { c.lse.strides[2] = 3; }) == "nothing was refused");
}

TEST_CASE("wgmma refuses a kv token stride that its 32-bit products cannot reach and names cp_async") {
  const Config wgmma = {.schedule = Schedule::wgmma};
  Call call = good_call(kAll);
  call.kv.strides = {0, 1073741816, 0};
  CHECK_NOTHROW(validate(call, kAll, wgmma));
  call.kv.strides[1] = 1073741824;
  CHECK_NOTHROW(validate(call, kAll, kCpAsync));
  try {
    validate(call, kAll, wgmma);
    FAIL("a stride of 2^30 elements was accepted");
  } catch (const Error& error) {
    CHECK(error.status() == Status::not_supported);
    CHECK_THAT(error.what(), contains("kv's token stride = 1073741824 elements (call.kv.strides[1])") &&
                                 contains("1073741816 at most") && contains("cp_async"));
  }
  call.lengths.keys = 1;  // the stride is not looked at
  CHECK_NOTHROW(validate(call, kAll, wgmma));
}

TEST_CASE("contiguous strides that 64 bits cannot hold saturate, and are refused with the lengths") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  Call call;
  call.lengths = {2, kMost, kMost, kMost};
  set_contiguous_strides(call, kAll);
  CHECK(call.q.strides == std::array<std::int64_t, 3>{kMost, 64 * 576, 576});
  CHECK(call.indices.strides == std::array<std::int64_t, 3>{kMost, kMost, kMost});
  CHECK_THROWS_AS(validate(call.lengths, kAll, kCpAsync), Error);
}

TEST_CASE("fp32 d_kv needs strides in multiples of 4 elements") {
  const Problem wide = {.heads = 64, .d_kv_type = DkvType::fp32};
  CHECK(refusal(
            [](Call& c) {
              c.d_kv.strides[1] = 580;
              c.d_kv.strides[0] = 580 * 300;
            },
            wide) == "nothing was refused");
  CHECK_THAT(refusal([](Call& c) { c.d_kv.strides[1] = 578; }, wide),
             contains("is not a multiple of 4 (16 bytes)"));
}

TEST_CASE("C35: inputs may be expanded, outputs may not overlap themselves") {
  CHECK(refusal([](Call& c) { c.d_o.strides = {0, 0, 0}; }) == "nothing was refused");
  CHECK(refusal([](Call& c) { c.topk_length.strides = {100, 1, 0}; }) == "nothing was refused");
  CHECK_THAT(refusal([](Call& c) { c.d_q.strides[1] = 0; }),
             contains("d_q overlaps itself: its token stride = 0"));
  CHECK_THAT(refusal([](Call& c) { c.d_kv.strides[1] = 568; }),
             contains("d_kv overlaps itself: its token stride = 568 is less than the 576 elements"));
  CHECK_THAT(refusal([](Call& c) { c.d_q.strides[0] = 576 * 64 * 99; }),
             contains("d_q overlaps itself: its batch"));
}

TEST_CASE("C35: transposed and sliced outputs work") {
  CHECK(refusal([](Call& c) { c.d_q.strides = {576 * 100 * 64, 576, 576 * 100}; }) == "nothing was refused");
  CHECK(refusal([](Call& c) { c.d_q.strides = {640 * 100 * 64, 640 * 64, 640}; }) == "nothing was refused");
}

TEST_CASE("an output that is another tensor, or lies in the workspace, is refused") {
  CHECK_THAT(refusal([](Call& c) { c.d_q.data = c.q.data; }), contains("d_q and q are both at"));
  CHECK_THAT(refusal([](Call& c) { c.d_kv.data = c.d_q.data; }), contains("are both at"));
  CHECK_THAT(refusal([](Call& c) { c.d_kv.data = static_cast<char*>(c.workspace) + 256; }),
             contains("d_kv = ") && contains("lies in the workspace"));
  CHECK_THAT(refusal([](Call& c) { c.q.data = c.workspace; }), contains("lies in the workspace"));
}

TEST_CASE("a scale that is not finite, or was never set, is refused with the usual one") {
  CHECK_THAT(refusal([](Call& c) { c.scale = Call().scale; }), contains("scale = nan is not finite"));
  CHECK_THAT(refusal([](Call& c) { c.scale = INFINITY; }),
             contains("the usual one is 0.041666668 for 576 columns"));
  CHECK(refusal([](Call& c) { c.scale = 0; }) == "nothing was refused");
}

TEST_CASE("a query_offset beyond 2^31 - 1 is refused") {
  CHECK_THAT(refusal([](Call& c) { c.query_offset = 2147483648; }),
             contains("query_offset = 2147483648 is outside"));
  CHECK(refusal([](Call& c) { c.query_offset = 2147483647; }) == "nothing was refused");
}

TEST_CASE("C32: a workspace that is null, too small or misaligned is refused with what is needed") {
  const auto said = [](void* workspace, std::size_t bytes) -> std::string {
    Call call;
    call.workspace = workspace;
    call.workspace_bytes = bytes;
    try {
      validate_workspace(call, 5000);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  CHECK_THAT(said(nullptr, 5000), contains("workspace is null, and this call needs 5000 bytes"));
  CHECK_THAT(said(at(4096), 4999), contains("workspace_bytes = 4999 is less than the 5000 bytes"));
  CHECK_THAT(said(at(4096 + 128), 5000), contains("is not a multiple of 256 bytes"));
  CHECK(said(at(4096), 5000) == "nothing was refused");
}

TEST_CASE("arguments carry pointers, pieces of the workspace, lengths and the order") {
  const Lengths n = {2, 100, 20000, 64};
  Call call = good_call(kAll, n);
  call.topk_length.strides = {100, 1, 0};
  call.query_offset = 7;
  const DeviceFacts device = {.multiprocessors = 78, .ctas_in_flight = 78, .sort_shared_limit = 232448};
  const Order order = {.sorted = true, .sweep = true, .prefetch = true, .throttle = 78};
  const Config config = {
      .schedule = Schedule::wgmma, .block_h = 64, .block_size = 64, .stages = 1, .threads = 384};
  const WorkspaceLayout layout = workspace_layout(kAll, config, n, order);
  const Arguments a = make_arguments(kAll, config, call, layout, order, device);
  CHECK(a.q == call.q.data);
  CHECK(a.kv == call.kv.data);
  CHECK(a.o == call.o.data);
  CHECK(a.d_o == call.d_o.data);
  CHECK(a.indices == call.indices.data);
  CHECK(a.topk_length == call.topk_length.data);
  CHECK(a.lse == call.lse.data);
  CHECK(a.attn_sink == call.attn_sink);
  CHECK(a.delta == nullptr);
  CHECK(a.d_q == call.d_q.data);
  CHECK(a.d_kv == call.d_kv.data);
  CHECK(a.d_sink == call.d_sink);
  const char* base = static_cast<const char*>(call.workspace);
  CHECK(reinterpret_cast<const char*>(a.row_lse) == base + layout.row_lse.offset);
  CHECK(reinterpret_cast<const char*>(a.row_delta) == base + layout.row_delta.offset);
  CHECK(reinterpret_cast<const char*>(a.list_length) == base + layout.list_length.offset);
  CHECK(reinterpret_cast<const char*>(a.block_length) ==
        base + layout.lists.offset + layout.block_length.offset);
  CHECK(reinterpret_cast<const char*>(a.sorted_lists) ==
        base + layout.lists.offset + layout.sorted_lists.offset);
  CHECK(reinterpret_cast<const char*>(a.d_kv_sum) == base + layout.d_kv_sum.offset);
  CHECK(reinterpret_cast<const char*>(a.counters) == base + layout.counters.offset);
  CHECK(a.zero_begin == a.d_kv_sum);
  CHECK(a.zero_bytes == std::int64_t{2} * 20000 * 576 * 4 + 64);
  CHECK(a.q_strides.token == 64 * 576);
  CHECK(a.kv_strides.token == 576);
  CHECK(a.kv_strides.head == 0);  // one kv group
  CHECK(a.topk_length_strides.token == 1);
  CHECK(a.d_kv_strides.batch == std::int64_t{20000} * 576);
  CHECK(a.query_offset == 7);
  CHECK(a.batch == 2);
  CHECK(a.queries == 100);
  CHECK(a.keys == 20000);
  CHECK(a.topk == 64);
  CHECK(a.sorted_pitch == 64);
  CHECK(a.sorted == 1);
  CHECK(a.concatenate == 0);
  CHECK(a.sweep == 1);
  CHECK(a.prefetch == 1);
  CHECK(a.throttle == 78);
  CHECK(a.ctas_in_flight == 78);
  CHECK(a.whole_ctas == 200);
  CHECK(a.split_blocks == 0);
  CHECK(a.shares == 1);
  CHECK(a.d_q_shares == nullptr);
  CHECK(a.scale == call.scale);
  CHECK(a.scale_log2 == smla_test::Approx(call.scale * std::log2(std::exp(1.0F))));
}

TEST_CASE("arguments of kept lists point into the caller's memory, those of unsorted lists nowhere") {
  const Lengths n = {2, 100, 20000, 64};
  const DeviceFacts device = {.multiprocessors = 78, .ctas_in_flight = 78, .sort_shared_limit = 232448};
  const Config config = {
      .schedule = Schedule::wgmma, .block_h = 64, .block_size = 64, .stages = 1, .threads = 384};
  Call call = good_call(kAll, n);
  call.lists = at(0x7000000000000);
  const Order sorted = {.sorted = true};
  const WorkspaceLayout layout = workspace_layout(kAll, config, n, sorted, true);
  const Arguments a = make_arguments(kAll, config, call, layout, sorted, device);
  CHECK(a.block_length == call.lists);
  CHECK(reinterpret_cast<const char*>(a.sorted_lists) == static_cast<const char*>(call.lists) + 1024);
  const Arguments unsorted =
      make_arguments(kAll, config, call, workspace_layout(kAll, config, n, {}, true), {}, device);
  CHECK(unsorted.block_length == unsorted.list_length);
  CHECK(unsorted.sorted_lists == nullptr);
}

TEST_CASE("memory for lists that is missing, misaligned, too small or not apart is refused") {
  const auto said = [](auto&& change, std::int64_t needed = 5120) -> std::string {
    Call call = good_call(kAll);
    call.lists = at(0x7000000000000);
    call.lists_bytes = 5120;
    change(call);
    try {
      validate_lists(call, kAll, needed);
    } catch (const Error& error) {
      CHECK(error.status() == Status::invalid_argument);
      return error.what();
    }
    return "nothing was refused";
  };
  const auto null_and_ready = [](Call& c) {
    c.lists = nullptr;
    c.lists_are_ready = true;
  };
  CHECK(said([](Call&) {}) == "nothing was refused");
  CHECK(said([](Call& c) { c.lists = nullptr; }) == "nothing was refused");
  CHECK_THAT(said(null_and_ready), contains("lists_are_ready = 1 and lists is null"));
  CHECK_THAT(said([](Call& c) { c.lists = at(0x7000000000080); }),
             contains("lists = 0x7000000000080 is not a multiple of 256 bytes"));
  CHECK_THAT(said([](Call& c) { --c.lists_bytes; }),
             contains("lists_bytes = 5119 is less than the 5120 bytes"));
  CHECK_THAT(said([](Call& c) { c.lists = static_cast<char*>(c.workspace) + 256; }),
             contains("overlap the workspace"));
  CHECK_THAT(said([](Call& c) { c.lists = static_cast<char*>(c.workspace) - 256; }),
             contains("overlap the workspace"));
  CHECK_THAT(said([](Call& c) { c.indices.data = static_cast<char*>(c.lists) + 4; }),
             contains("indices = 0x7000000000004 lies in the lists at 0x7000000000000"));
  // Where no list is sorted none of it counts: calls of any lengths can be written alike.
  CHECK(said(null_and_ready, 0) == "nothing was refused");
  CHECK(said([](Call& c) { c.lists = at(4); }, 0) == "nothing was refused");
}
