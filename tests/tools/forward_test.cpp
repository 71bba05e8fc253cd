// What smla-bench brings of its own: the forward that makes its inputs, and the limit that it compares with.
#include "forward.h"

#include <vector>

#include "base/error.h"
#include "catch.h"
#include "compiler/compiler.h"
#include "config/arch.h"
#include "driver/driver.h"
#include "driver/memory.h"
#include "driver/stream.h"
#include "floor.h"
#include "generator/kernel_source.h"
#include "reference/difference.h"
#include "reference/half.h"
#include "reference/inputs.h"
#include "reference/reference.h"

using namespace smla::core;

namespace {

std::vector<Problem> problems() {
  return {{.heads = 64},
          {.heads = 24,
           .kv_groups = 2,
           .d_tail = 0,
           .dtype = DType::fp16,
           .causal = true,
           .has_topk_length = true},
          {.heads = 5, .has_sink = true, .lse_base = LseBase::e},
          {.heads = 128, .has_sink = true, .lse_includes_sink = true}};
}

bool compiler_found() {
  try {
    compiler_version();
    return true;
  } catch (const Error&) {
    return false;
  }
}

template <class T>
DeviceBuffer upload(const std::vector<T>& values) {
  DeviceBuffer buffer(values.size() * sizeof(T));
  if (!values.empty()) copy_to_device(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

}  // namespace

TEST_CASE("the benchmark's forward compiles for every arch without spilling") {
  if (!compiler_found()) SKIP("no NVRTC");
  for (const Problem& problem : problems()) {
    for (const char* arch : {"sm_80", "sm_90a", "sm_120"}) {
      const Cubin cubin = compile(forward_source(problem), parse_arch(arch));
      REQUIRE(cubin.kernels.size() == 1);
      CHECK(cubin.kernels.front().name == "smla_forward");
      CHECK(cubin.kernels.front().spill_store_bytes == 0);
      CHECK(forward_shared_bytes(problem) <= shared_memory_limit(parse_arch(arch)));
    }
  }
}

TEST_CASE("the benchmark's forward saves what the fp64 forward saves", "[gpu]") {
  if (!driver_available()) SKIP("no GPU");
  const DeviceProperties device = device_properties(0);
  const CurrentDevice current(device.handle);
  for (const Problem& problem : problems()) {
    const InputOptions options = {
        .batch = 2, .queries = 5, .keys = 90, .topk = 70, .junk_share = 0.1, .dead_share = 0.1};
    const HostTensors tensors = make_inputs(problem, options, 7);  // with o and lse of the reference
    const DeviceBuffer q = upload(tensors.q), kv = upload(tensors.kv), indices = upload(tensors.indices),
                       lengths = upload(tensors.topk_length), sink = upload(tensors.attn_sink);
    const DeviceBuffer o(tensors.o.size() * 2), lse(tensors.lse.size() * 4);
    const Stream stream;
    run_forward(problem, tensors, device,
                {q.data(), kv.data(), indices.data(), lengths.data(), sink.data(), o.data(), lse.data()},
                stream.handle());
    std::vector<std::uint16_t> got_o(tensors.o.size());
    std::vector<float> got_lse(tensors.lse.size());
    copy_to_host(got_o.data(), o.data(), o.bytes());
    copy_to_host(got_lse.data(), lse.data(), lse.bytes());
    std::vector<double> a, b;
    for (std::size_t i = 0; i < got_o.size(); ++i) {
      a.push_back(static_cast<double>(to_float(problem.dtype, got_o[i])));
      b.push_back(static_cast<double>(to_float(problem.dtype, tensors.o[i])));
    }
    CHECK(difference(a, b).relative_l2 < (problem.dtype == DType::bf16 ? 3e-3 : 5e-4));
    for (std::size_t i = 0; i < got_lse.size(); ++i) {
      if (got_lse[i] != tensors.lse[i])
        CHECK(got_lse[i] == smla_test::Approx(tensors.lse[i]).margin(1e-4));  // equal: -inf too
    }
  }
}

TEST_CASE(
    "the limit of 64 heads on an H200 is 545 TFLOPS, and tokens that share a CTA raise that of fewer heads") {
  const DeviceProperties h200 = {.name = "NVIDIA H200", .multiprocessors = 132};
  const auto limit = [&](int heads, int block_h, std::int64_t keys, Schedule schedule = Schedule::wgmma) {
    const Problem problem = {.heads = heads};
    const Config config = {.schedule = schedule, .block_h = block_h};
    HostTensors tensors{.batch = 1, .queries = 64, .keys = keys, .topk = 2048};
    tensors.indices = make_lists(problem, {.queries = 64, .keys = keys, .topk = 2048}, 1);
    return call_flops(problem, {1, 64, keys, 2048}) * 1e-9 /
           *floor_milliseconds(problem, config, reduced_tiles(problem, config, tensors), h200);
  };
  CHECK(limit(64, 64, 4096) == smla_test::Approx(545).margin(1));
  CHECK(limit(128, 64, 4096) == smla_test::Approx(545).margin(1));
  // A pair's CTA reduces half of a row's bytes.
  CHECK(limit(128, 64, 4096, Schedule::wgmma_pair) == smla_test::Approx(545 * 5.455 / 2.94).margin(2));
  CHECK(limit(16, 64, 4096) == smla_test::Approx(545.0 / 4).margin(1));
  CHECK(limit(16, 16, 4096) == smla_test::Approx(545.0 / 4 * 8192 / 3840).epsilon(0.01));  // random lists
  CHECK(limit(16, 16, 2048) == smla_test::Approx(545).margin(1));                          // the same list
  CHECK_FALSE(floor_milliseconds({.heads = 64}, {.schedule = Schedule::wgmma, .block_h = 64}, 1,
                                 {.name = "NVIDIA A100", .multiprocessors = 108}));
}
