// The cases of the contract on a GPU: every body in every schedule and order.
#include "cases_of_layouts.h"
#include "cases_of_lists.h"
#include "cases_of_numbers.h"
#include "catch.h"
#include "gpu_call.h"

using namespace smla_test;

namespace {

void check_on_gpu(CaseBody body) {
  const Gpu& gpu = require_gpu();
#define SMLA_BODY(name, body) body,
  static const bool compiled = [&] {
    compile_bodies_together(
        gpu,
        {SMLA_CASES_OF_LISTS(SMLA_BODY) SMLA_CASES_OF_NUMBERS(SMLA_BODY) SMLA_CASES_OF_LAYOUTS(SMLA_BODY)},
        settings(gpu), usual);
    return true;
  }();
  REQUIRE(compiled);
  on_gpu(body, settings(gpu), usual);
}

}  // namespace

#define SMLA_GPU_CASE(name, body) \
  TEST_CASE(name, "[gpu]") {      \
    check_on_gpu(body);           \
  }

SMLA_CASES_OF_LISTS(SMLA_GPU_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_GPU_CASE)
SMLA_CASES_OF_LAYOUTS(SMLA_GPU_CASE)

TEST_CASE("C35: what a kernel cannot address is refused by the tensor's name, and nothing is launched",
          "[gpu]") {
  require_gpu();
  Case c = layout_case(64);
  const auto refusal = [&](Placement Layout::*tensor, const Placement& placement) {
    Case moved = c;
    moved.layout.*tensor = placement;
    GpuCase g = allocate(moved);
    upload_inputs(g, moved.tensors);
    std::string message;
    try {
      run(*g.plan, g.call);
    } catch (const Error& error) {
      REQUIRE(error.status() == Status::invalid_argument);
      message = error.what();
    }
    synchronize(g.call.stream);
    const std::vector<std::uint16_t> d_q = download(g).d_q;
    REQUIRE(std::all_of(d_q.begin(), d_q.end(), [](std::uint16_t bits) { return bits == 0xffff; }));
    return message;
  };
  REQUIRE_THAT(refusal(&Layout::q, {.before = 1}), contains("q"));
  REQUIRE_THAT(refusal(&Layout::d_o, {.before = 4}), contains("d_o"));
  const std::int64_t token = 64 * 580;
  REQUIRE_THAT(refusal(&Layout::kv, {.strides = {{80 * 580, 580, 580}}}), contains("kv"));
  REQUIRE_THAT(refusal(&Layout::d_q, {.strides = {{5 * token, token, 580}}}), contains("d_q"));
  REQUIRE_THAT(refusal(&Layout::d_q, {.strides = {{0, 64 * 576, 576}}}), contains("d_q"));
}
