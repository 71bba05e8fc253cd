// Deterministic problems on a GPU: the same bits in every run, at any grid size, beside other work.
#include <map>

#include "cases_of_lists.h"
#include "cases_of_numbers.h"
#include "catch.h"
#include "gpu_call.h"

using namespace smla_test;

namespace {

// Every row in most lists: sums of many addends.
Case shared_rows(const Problem& problem) {
  Case c{.problem = problem};
  c.tensors = make_inputs(problem,
                          {.queries = 600,
                           .keys = 160,
                           .topk = 200,
                           .junk_share = 0.05,
                           .duplicate_share = 0.3,
                           .dead_share = 0.05,
                           .with_forward = false},
                          5);
  c.tensors.o = c.tensors.d_o;
  c.tensors.lse.assign(static_cast<std::size_t>(c.tensors.queries * c.problem.heads),
                       9);  // P of 1/512 and around
  return c;
}

// The call as a device with this many CTAs in flight would run it, and with other grids of the small kernels.
void run_as_if(const GpuCase& g, int ctas_in_flight) {
  ReadyCall ready = ready_call(*g.plan, g.call);
  ready.arguments.ctas_in_flight = ctas_in_flight;
  const Launchables& functions = g.plan->functions->of_current_context();
  for (std::size_t i = 0; i < ready.launches.count; ++i) {
    Launch& launch = ready.launches.launch[i];
    const bool strided = launch.role == KernelRole::preprocess || launch.role == KernelRole::row_scales ||
                         launch.role == KernelRole::postprocess;
    if (strided) launch.grid = static_cast<std::uint32_t>(ctas_in_flight);
    enqueue(functions, ready, launch);
  }
}

void expect_equal(const Outputs& got, const Outputs& want) {
  REQUIRE((got.d_q == want.d_q));
  REQUIRE(std::memcmp(got.d_kv_fp32.data(), want.d_kv_fp32.data(), want.d_kv_fp32.size() * 4) == 0);
  REQUIRE(std::memcmp(got.d_sink.data(), want.d_sink.data(), want.d_sink.size() * 4) == 0);
}

Problem deterministic(Problem problem) {
  problem.deterministic = true;
  return problem;
}

void check_deterministic_on_gpu(CaseBody body) {
  const Gpu& gpu = require_gpu();
#define SMLA_BODY(name, body) body,
  static const bool compiled = [&] {
    compile_bodies_together(gpu, {SMLA_CASES_OF_LISTS(SMLA_BODY) SMLA_CASES_OF_NUMBERS(SMLA_BODY)},
                            settings(gpu), deterministic);
    return true;
  }();
  REQUIRE(compiled);
  on_gpu(body, settings(gpu), deterministic);
}

}  // namespace

TEST_CASE("Deterministic: ten runs and two grids give the same bits, and d_kv in every order of the lists",
          "[gpu]") {
  std::optional<Outputs> of_wgmma;
  std::map<int, Gradients> references;  // by heads
  for (const Setting& setting : settings(require_gpu())) {
    INFO(describe(setting));
    const Case c = with_setting(shared_rows({.heads = setting.heads_per_group,
                                             .has_sink = true,
                                             .d_kv_type = DkvType::fp32,
                                             .deterministic = true}),
                                setting);
    GpuCase g = allocate(c);
    upload_inputs(g, c.tensors);
    std::optional<Outputs> first;
    for (int i = 0; i < 12; ++i) {
      INFO("run " << i);
      poison_outputs(g);
      if (i < 10) {
        run(*g.plan, g.call);
      } else {
        run_as_if(g, i == 10 ? 7 : 500);
      }
      synchronize(g.call.stream);
      const Outputs outputs = download(g);
      if (!first) first = outputs;
      expect_equal(outputs, *first);
    }
    Gradients& want = references[c.problem.heads];
    if (want.d_q.empty()) want = backward(c.problem, c.tensors);
    const Gradients got = widened(c.problem, *first);
    expect_close("d_q", got.d_q, want.d_q, accuracy_bound(DType::bf16));
    expect_close("d_kv", got.d_kv, want.d_kv, accuracy_bound(DType::bf16));
    if (setting.schedule != Schedule::wgmma || setting.heads_per_group != 64) continue;
    if (!of_wgmma) of_wgmma = first;
    REQUIRE(first->d_kv_fp32 == of_wgmma->d_kv_fp32);
  }
}

#define SMLA_DETERMINISTIC_GPU_CASE(name, body) \
  TEST_CASE("Deterministic: " name, "[gpu]") {  \
    check_deterministic_on_gpu(body);           \
  }

SMLA_CASES_OF_LISTS(SMLA_DETERMINISTIC_GPU_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_DETERMINISTIC_GPU_CASE)
