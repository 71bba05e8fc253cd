// Families of cases against the fp64 reference on a GPU, for all schedules.
#include "cases_of_options.h"
#include "catch.h"
#include "gpu_call.h"

using namespace smla_test;

namespace {

void check_cases(const std::vector<Case>& cases, Schedule schedule, const std::vector<OrderRequest>& orders) {
  const Gpu& gpu = require_gpu();
  std::vector<std::pair<Problem, ConfigRequest>> wanted;
  for (const Case& c : cases) {
    const std::pair<Problem, ConfigRequest> pair = {c.problem, {.schedule = schedule}};
    if (std::find(wanted.begin(), wanted.end(), pair) == wanted.end()) wanted.push_back(pair);
  }
  prepare_together(wanted, gpu.arch);
  for (const Case& c : cases) {
    const Gradients want = backward(c.problem, c.tensors);
    for (const OrderRequest order : orders) {
      INFO(name(schedule) << ", order " << static_cast<int>(order));
      const Case forced = with_setting(c, {schedule, c.problem.heads_per_group(), order});
      expect_matches(c, run_on_gpu(forced), want, gradient_bound(c.problem, c.tensors));
    }
  }
}

const std::vector<OrderRequest> kOneOrder = {OrderRequest::automatic};
const std::vector<OrderRequest> kAllOrders = {OrderRequest::callers, OrderRequest::sorted,
                                              OrderRequest::sorted_throttled};

void require_wgmma() {
  if (!has_wgmma(require_gpu().arch)) SKIP("the GPU has no wgmma");
}

std::vector<Case> of_bf16(std::vector<Case> cases) {
  std::erase_if(cases, [](const Case& c) { return c.problem.dtype != DType::bf16; });
  return cases;
}

// Inputs that the schedules share: the forward of the large case takes seconds.
struct LargeCase {
  Case c;
  std::vector<std::int64_t> tokens = {}, rows = {};
  Gradients want = {};
};

const LargeCase& tilelang_case() {
  static const LargeCase large = [] {
    LargeCase l{.c = {.problem = {.heads = 64, .causal = true}}};
    l.c.tensors = make_inputs(l.c.problem,
                              {.queries = 4096, .keys = 8192, .topk = 2048, .lists = ListKind::causal}, 2026);
    for (std::int64_t i = 0; i < 48; ++i) l.tokens.push_back(i < 8 ? i : 4095 - (i - 8) * 104);
    for (std::int64_t i = 0; i < 24; ++i) l.rows.push_back(i * 180);
    l.want = backward_rows(l.c.problem, l.c.tensors, l.tokens, l.rows);
    return l;
  }();
  return large;
}

std::vector<double> chosen_rows(const std::vector<double>& all, const std::vector<std::int64_t>& rows,
                                std::size_t columns) {
  std::vector<double> chosen;
  for (const std::int64_t row : rows) {
    const double* from = all.data() + static_cast<std::size_t>(row) * columns;
    chosen.insert(chosen.end(), from, from + columns);
  }
  return chosen;
}

void check_tilelang_case(const Setting& setting) {
  const LargeCase& l = tilelang_case();
  INFO(describe(setting));
  const Gradients got = widened(l.c.problem, run_on_gpu(with_setting(l.c, setting)));
  REQUIRE(difference(got.d_q, got.d_q).finite());
  REQUIRE(difference(got.d_kv, got.d_kv).finite());
  expect_close("d_q", chosen_rows(got.d_q, l.tokens, 64 * 576), l.want.d_q, accuracy_bound(DType::bf16));
  expect_close("d_kv", chosen_rows(got.d_kv, l.rows, 576), l.want.d_kv, accuracy_bound(DType::bf16));
}

}  // namespace

TEST_CASE("C14, C16, C17: cp_async agrees with the reference at any heads, topk, tail and type", "[gpu]") {
  require_gpu();
  check_cases(shape_cases({1, 2, 4, 8, 16, 24, 32, 40, 64, 96, 128}), Schedule::cp_async, kOneOrder);
}

TEST_CASE("C14: cp_async agrees with the reference at odd heads", "[gpu]") {
  require_gpu();
  check_cases(shape_cases({3, 17, 65, 127}), Schedule::cp_async, kOneOrder);
}

TEST_CASE("C16, C17: wgmma agrees with the reference at 64 and 128 heads, any topk, tail and type", "[gpu]") {
  require_wgmma();
  check_cases(shape_cases({64, 128, 192}), Schedule::wgmma, kAllOrders);
}

TEST_CASE(
    "C14, C16, C17: wgmma agrees with the reference at heads that fill no block, and at blocks of tokens",
    "[gpu]") {
  require_wgmma();
  check_cases(shape_cases({1, 2, 3, 8, 16, 17, 24, 32, 40, 65, 96, 127}), Schedule::wgmma, kAllOrders);
}

TEST_CASE("C14, C16, C17: wgmma_pair agrees with the reference at 65 to 128 and 256 heads, any topk and tail",
          "[gpu]") {
  require_wgmma();
  check_cases(of_bf16(shape_cases({65, 96, 127, 128, 256})), Schedule::wgmma_pair, kAllOrders);
}

TEST_CASE("every two options of a problem work together in cp_async", "[gpu]") {
  require_gpu();
  check_cases(option_cases(24), Schedule::cp_async, kOneOrder);
}

TEST_CASE("every two options of a problem work together in wgmma", "[gpu]") {
  require_wgmma();
  check_cases(option_cases(64), Schedule::wgmma, kAllOrders);
}

TEST_CASE("every two options of a problem work together in wgmma with blocks of tokens", "[gpu]") {
  require_wgmma();
  check_cases(option_cases(6), Schedule::wgmma, kAllOrders);
  check_cases(option_cases(16), Schedule::wgmma, kAllOrders);
}

TEST_CASE("every two options of a problem work together in wgmma_pair", "[gpu]") {
  require_wgmma();
  check_cases(of_bf16(option_cases(128)), Schedule::wgmma_pair, kAllOrders);
  check_cases(of_bf16(option_cases(96)), Schedule::wgmma_pair, kAllOrders);
}

TEST_CASE("C20: TileLang's own case is right on sampled rows in cp_async", "[gpu]") {
  require_gpu();
  check_tilelang_case({Schedule::cp_async, 64, OrderRequest::automatic});
}

TEST_CASE("C20: TileLang's own case is right on sampled rows in wgmma, in every order", "[gpu]") {
  require_wgmma();
  for (const OrderRequest order : kAllOrders) check_tilelang_case({Schedule::wgmma, 64, order});
}
