// The table of measured errors: inputs and types against schedules, printed as Markdown. On the emulator it
// is of small calls, on a GPU of calls with lists of 2048 entries.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "cases_of_lists.h"
#include "cases_of_numbers.h"
#include "cpu_call.h"
#include "gpu_call.h"

using namespace smla_test;

namespace {

// What is measured: `bound` is of the relative L2 error, absent where the contract gives none.
struct Row {
  std::string input;
  Case c;
  std::optional<double> bound;
};

struct Size {
  std::int64_t queries, keys, topk;
};

constexpr double kSmallestNormalFp16 = 0x1p-14;

std::string shape(const HostTensors& t) {
  return fmt::format("S {}, S_kv {}, topk {}", t.queries, t.keys, t.topk);
}

// dS is about scale / topk * |d_o . v|. Where that is below fp16's normal numbers its rounding is coarser
// than the contract's bound, and so the contract's range of d_o ends.
Row random_row(const Problem& problem, const Size& size, double d_o_rms) {
  Row row{.input = "", .c = {.problem = problem}, .bound = accuracy_bound(problem.dtype)};
  HostTensors& t = row.c.tensors;
  t = make_inputs(problem,
                  {.queries = size.queries, .keys = size.keys, .topk = size.topk, .d_o_rms = d_o_rms}, 31);
  row.input = fmt::format("random, d_o {:.0e}, {}", d_o_rms, shape(t));
  const double d_s = static_cast<double>(t.scale) / static_cast<double>(t.topk) * d_o_rms *
                     std::sqrt(static_cast<double>(problem.d_v));
  if (problem.dtype == DType::fp16 && d_s < kSmallestNormalFp16) row.bound.reset();
  return row;
}

std::vector<Row> rows_of(const Problem& problem, const Size& size) {
  std::vector<Row> rows;
  for (const double rms : {1.0, 1e-2, 1e2, 1e-8, 1e4}) {
    rows.push_back(random_row(problem, size, rms));
  }
  const auto coarse = [&](const char* input, Case c) {
    rows.push_back(
        {fmt::format("{}, {}", input, shape(c.tensors)), std::move(c), single_rounding_bound(problem.dtype)});
  };
  coarse("logits of 600 and -600", case_of_logits_of_600(problem));
  coarse("one-hot P", one_hot_case(problem));
  coarse("all keys equal", case_of_equal_keys(problem));
  return rows;
}

std::string figure(const std::vector<double>& got, const std::vector<double>& want) {
  const Difference d = difference(got, want);
  if (!d.finite()) return "not finite";
  if (std::isinf(d.relative_l2)) return fmt::format("0, off by {:.0e}", d.max_abs);
  return fmt::format("{:.2e}", d.relative_l2);
}

std::vector<DType> types_of(Schedule schedule) {
  return schedule == Schedule::wgmma_pair ? std::vector{DType::bf16} : std::vector{DType::bf16, DType::fp16};
}

// Runs every row of every type by `run`, expects its bound, and returns a line a row.
std::string measured(const std::string& label, Schedule schedule, int heads, const Size& size,
                     const Executor& run) {
  std::string lines;
  for (const DType dtype : types_of(schedule)) {
    Problem problem{.heads = heads, .dtype = dtype};
    for (Row& row : rows_of(problem, size)) {
      INFO(label << ", " << row.input << ", " << name(dtype));
      const Gradients want = backward(problem, row.c.tensors);
      const Gradients got = widened(problem, run(row.c));
      row.c.problem.d_kv_type = DkvType::fp32;
      const Gradients wide = widened(problem, run(row.c));
      const double noise = d_q_noise(problem, row.c.tensors);
      const double bound = row.bound.value_or(1);
      lines +=
          fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", row.input, name(dtype), label,
                      figure(got.d_q, want.d_q), figure(got.d_kv, want.d_kv), figure(wide.d_kv, want.d_kv),
                      row.bound ? fmt::format("{:.1e}", *row.bound) : "none");
      CHECK(difference(got.d_q, want.d_q).finite());
      CHECK(is_close(difference(got.d_q, want.d_q), want.d_q, bound, noise));
      CHECK(is_close(difference(got.d_kv, want.d_kv), want.d_kv, bound, 0));
      CHECK(is_close(difference(wide.d_kv, want.d_kv), want.d_kv, bound, 0));
    }
  }
  return lines;
}

void print_table(const std::string& lines) {
  std::printf(
      "\n| input | type | schedule | d_q | d_kv | fp32 d_kv | bound |\n|---|---|---|---|---|---|---|\n%s\n",
      lines.c_str());
}

}  // namespace

TEST_CASE("errors stay within their bounds on random and adversarial inputs, on the emulator") {
  require_host_compiler();
  const Size size = {2, 200, 96};
  std::string lines = measured("cp_async, 3 heads", Schedule::cp_async, 3, size,
                               [](const Case& c) { return run_on_emulator(c, parse_arch("sm_80"), 2); });
  const auto on_hopper = [](const Case& c) { return run_on_emulator(c, parse_arch("sm_90a"), 2); };
  lines += measured("wgmma, 64 heads", Schedule::wgmma, 64, size, on_hopper);
  lines += measured("wgmma_pair, 128 heads", Schedule::wgmma_pair, 128, size, on_hopper);
  if (long_tests()) print_table(lines);
}

TEST_CASE("errors stay within their bounds on random and adversarial inputs", "[gpu]") {
  const Gpu& gpu = require_gpu();
  std::string lines;
  const std::vector<Setting> all = settings(gpu);
  std::vector<std::pair<Problem, ConfigRequest>> wanted;
  for (const Setting& s : all) {
    for (const DType dtype : types_of(s.schedule)) {
      for (const DkvType type : {DkvType::operand, DkvType::fp32}) {
        const Problem problem{.heads = s.heads_per_group, .dtype = dtype, .d_kv_type = type};
        wanted.push_back({problem, {.schedule = s.schedule}});
      }
    }
  }
  prepare_together(wanted, gpu.arch);
  for (const Setting& s : all) {
    lines += measured(describe(s), s.schedule, s.heads_per_group, {16, 4096, 2048},
                      [&](const Case& c) { return run_on_gpu(with_setting(c, s)); });
  }
  print_table(lines);
}
