// accumulate = partial on a GPU: the accuracy of the study, the fallback, and the contract's cases.
#include "cases_of_layouts.h"
#include "cases_of_lists.h"
#include "cases_of_numbers.h"
#include "catch.h"
#include "gpu_call.h"

using namespace smla_test;

namespace {

void require_wgmma() {
  if (!has_wgmma(require_gpu().arch)) SKIP("the GPU has no wgmma");
}

Problem partial(int heads) {
  return {.heads = heads, .d_kv_type = DkvType::fp32, .accumulate = Accumulate::partial};
}

Outputs run_with(Case c, Accumulate accumulate) {
  c.problem.accumulate = accumulate;
  return run_on_gpu(c);
}

// The contract's cases with bf16 operands go through partial sums, and the fallback where they must.
Problem partial_where_it_may_be(Problem problem) {
  if (problem.dtype == DType::bf16) problem.accumulate = Accumulate::partial;
  return problem;
}

void check_partial_on_gpu(CaseBody body) {
  require_wgmma();
  if (body == twice_listed_counts_twice) SKIP(kAlikeAdditions);
  const Gpu& gpu = require_gpu();
  const std::vector<Setting> in_settings = {{Schedule::wgmma, 64, OrderRequest::automatic},
                                            {Schedule::wgmma, 16, OrderRequest::automatic},
                                            {Schedule::wgmma, 5, OrderRequest::sorted}};
#define SMLA_BODY(name, body) body,
  static const bool compiled = [&] {
    compile_bodies_together(
        gpu,
        {SMLA_CASES_OF_LISTS(SMLA_BODY) SMLA_CASES_OF_NUMBERS(SMLA_BODY) SMLA_CASES_OF_LAYOUTS(SMLA_BODY)},
        in_settings, partial_where_it_may_be);
    return true;
  }();
  REQUIRE(compiled);
  on_gpu(body, in_settings, partial_where_it_may_be);
}

// 4,096 tokens, by a forward that costs nothing here: q = 0, so P = 1 / topk.
Case flat(std::int64_t keys, std::int64_t topk) {
  Case c{.problem = partial(64)};
  InputOptions options = {.queries = 4096, .keys = keys, .topk = topk, .q_rms = 0, .with_forward = false};
  c.tensors = make_inputs(c.problem, options, 3);
  std::fill(c.tensors.d_o.begin(), c.tensors.d_o.end(), to_operand(DType::bf16, 1.0));
  c.tensors.o = c.tensors.d_o;
  c.tensors.lse.assign(static_cast<std::size_t>(c.tensors.queries * c.problem.heads),
                       std::log2(static_cast<float>(topk)));
  return c;
}

}  // namespace

TEST_CASE("Partial sums: 4096 additions of 1 are 4096, bit for bit", "[gpu]") {
  require_wgmma();
  const Case c = flat(64, 64);
  const Outputs got = run_on_gpu(c);
  for (std::size_t i = 0; i < got.d_kv_fp32.size(); ++i)
    REQUIRE(got.d_kv_fp32[i] == (i % 576 < 512 ? 4096.0F : 0.0F));
}

TEST_CASE("Partial sums: the size of the groups shows where all additions are alike", "[gpu]") {
  require_wgmma();
  // The study's worst case: every token adds 64 / 640 to the same rows. fp16 leaves 0.1, at 128 additions
  // by 9.5e-3.
  Case c = flat(960, 640);
  for (std::size_t i = 0; i < c.tensors.indices.size(); ++i) c.tensors.indices[i] = static_cast<int>(i % 640);
  const Outputs got = run_on_gpu(c);
  CHECK(got.d_kv_fp32[0] == smla_test::Approx(413.5).epsilon(1e-3));
  CHECK(run_with(c, Accumulate::fp32).d_kv_fp32[0] == smla_test::Approx(409.6).epsilon(2e-3));
}

TEST_CASE(
    "Partial sums: errors against fp32 sums are those of the study, and so is the difference of two runs",
    "[gpu]") {
  require_wgmma();
  for (const bool causal : {false, true}) {
    Case c{.problem = partial(64)};
    c.problem.causal = causal;
    InputOptions options = {.queries = 4096, .keys = 4096, .topk = 2048, .with_forward = false};
    if (causal) options.lists = ListKind::causal;
    c.tensors = make_inputs(c.problem, options, 5);
    c.tensors.o = make_inputs(c.problem, options, 6).d_o;
    c.tensors.lse.assign(static_cast<std::size_t>(c.tensors.queries * c.problem.heads),
                         std::log2(2048.0F) + 1);
    const auto run = [&](Accumulate accumulate) { return widened(c.problem, run_with(c, accumulate)); };
    const Gradients fp32 = run(Accumulate::fp32), first = run(Accumulate::partial),
                    second = run(Accumulate::partial);
    INFO((causal ? "causal" : "random") << " lists");
    CHECK(difference(first.d_q, fp32.d_q).relative_l2 < 1e-3);
    const double error = difference(first.d_kv, fp32.d_kv).relative_l2;
    CHECK(error < 1.8e-3);  // sqrt(2.44^2 - 1.65^2) e-3
    CHECK(error > 2e-4);    // or it is not in use
    CHECK(difference(first.d_kv, second.d_kv).relative_l2 < 2.5e-3);
  }
}

TEST_CASE("Partial sums: what overflows is computed again in fp32", "[gpu]") {
  require_wgmma();
  Case c{.problem = partial(64)};
  c.tensors = make_inputs(c.problem, {.queries = 20, .keys = 300, .topk = 200}, 5);
  for (float& lse : c.tensors.lse) lse -= 24;
  const Gradients got = widened(c.problem, run_on_gpu(c)), want = backward(c.problem, c.tensors);
  expect_close("d_q", got.d_q, want.d_q, accuracy_bound(DType::bf16));
  expect_close("d_kv", got.d_kv, want.d_kv, accuracy_bound(DType::bf16));
}

#define SMLA_PARTIAL_GPU_CASE(name, body) \
  TEST_CASE("Partial: " name, "[gpu]") {  \
    check_partial_on_gpu(body);           \
  }

SMLA_CASES_OF_LISTS(SMLA_PARTIAL_GPU_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_PARTIAL_GPU_CASE)
SMLA_CASES_OF_LAYOUTS(SMLA_PARTIAL_GPU_CASE)
