// accumulate = partial on the emulator: fp16 sums of groups of tokens, their scale, and when fp32 takes over.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cpu_kernels.h"
#include "reference/half.h"

using namespace smla_test;

namespace {

// The kernels of a problem with partial sums and of its fallback.
struct PartialSubject {
  CpuSubject partial, fp32;

  explicit PartialSubject(const Problem& problem)
      : partial(make_subject(problem, parse_arch("sm_90a"))),
        fp32(make_subject(with_fp32_sums(problem), parse_arch("sm_90a"), same_blocks(partial.config))) {}
};

struct PartialRun {
  emulator::CpuOutputs got;
  bool fell_back = false;
};

PartialRun run_partial(const PartialSubject& subject, const HostTensors& tensors,
                       OrderRequest order = OrderRequest::automatic, std::uint64_t seed = 1,
                       std::uint32_t virtual_sms = 3) {
  const Problem& problem = subject.partial.problem;
  const emulator::CpuOptions options = {.seed = seed, .virtual_sms = virtual_sms, .step_limit = 50'000'000};
  const emulator::CpuFallback fallback = {subject.fp32.source, *subject.fp32.kernels};
  const emulator::CpuCall call = emulator::make_cpu_call(problem, tensors, order);
  const emulator::CpuCall alone = emulator::make_cpu_call(problem, tensors, order);
  const CpuSubject& s = subject.partial;
  const emulator::Report report =
      emulator::run_on_cpu(s.source, *s.kernels, problem, s.config, call.call, options, &fallback);
  const emulator::Report without =
      emulator::run_on_cpu(s.source, *s.kernels, problem, s.config, alone.call, options);
  INFO(s.source.name << ", seed " << seed << "\n" << emulator::describe(report));
  REQUIRE(report.clean());
  return {emulator::outputs_of(problem, call), report.wgmmas > without.wgmmas};
}

Problem problem_of(int heads) {
  return {.heads = heads, .d_kv_type = DkvType::fp32, .accumulate = Accumulate::partial};
}

InputOptions lists(std::int64_t queries, std::int64_t keys, std::int64_t topk) {
  return {.queries = queries, .keys = keys, .topk = topk};
}

bool names(const HostTensors& t, std::int64_t token, std::int32_t row) {
  const auto list = t.indices.begin() + token * t.topk;
  return std::find(list, list + t.topk, row) != list + t.topk;
}

bool row_is_finite(const std::vector<double>& d_kv, std::int64_t row) {
  return std::all_of(d_kv.begin() + row * 576, d_kv.begin() + (row + 1) * 576,
                     [](double x) { return std::isfinite(x); });
}

void scale_d_o(HostTensors& t, double factor) {
  for (std::uint16_t& x : t.d_o)
    x = to_operand(DType::bf16, factor * static_cast<double>(to_float(DType::bf16, x)));
}

const PartialSubject& of_64_heads() {
  static const PartialSubject subject(problem_of(64));
  return subject;
}

}  // namespace

TEST_CASE("Partial sums: right for blocks of every kind, without the fallback") {
  require_host_compiler();
  std::vector<Problem> problems = {problem_of(64), problem_of(128), problem_of(16), problem_of(6),
                                   problem_of(40)};
  problems[1].causal = problems[1].has_sink = true;
  problems[2].d_tail = 0;
  problems[2].has_topk_length = true;
  problems[3].kv_groups = 2;
  problems[3].causal = true;
  problems[3].d_kv_type = DkvType::operand;
  problems[4].has_delta = true;
  problems[4].lse_base = LseBase::e;
  for (const Problem& problem : problems) {
    const PartialSubject subject(problem);
    InputOptions options = lists(19, 150, 100);
    options.batch = 2;
    options.query_offset = 130;
    options.junk_share = options.hole_share = options.duplicate_share = options.dead_share = 0.1;
    const HostTensors tensors = make_inputs(problem, options, 3);
    const Gradients want = backward(problem, tensors);
    for (const std::uint64_t seed : {1u, 2u}) {
      INFO(subject.partial.source.name << ", seed " << seed);
      const PartialRun run = run_partial(subject, tensors, OrderRequest::automatic, seed);
      CHECK_FALSE(run.fell_back);
      CHECK(is_close(difference(run.got.d_q, want.d_q), 3e-3));
      CHECK(is_close(difference(run.got.d_kv, want.d_kv), 3e-3));
      CHECK(is_close(difference(run.got.d_sink, want.d_sink), 1e-3));
    }
  }
}

TEST_CASE("Partial sums: CTAs share the last wave's lists, and the fallback's do") {
  require_host_compiler();
  Problem problem = problem_of(16);
  problem.has_sink = problem.lse_includes_sink = true;
  const PartialSubject subject(problem);
  HostTensors tensors = make_inputs(problem, lists(9, 400, 200), 3);
  REQUIRE(choose_split(problem, subject.partial.config, {1, 9, 400, 200}, {8, 8, 0}, false) == Split{3, 2});
  for (const bool falls_back : {false, true}) {
    if (falls_back) {
      for (float& lse : tensors.lse) lse -= 24;  // not that of these inputs: P is 2^24 times too large
    }
    const Gradients want = backward(problem, tensors);
    const PartialRun run = run_partial(subject, tensors, OrderRequest::automatic, 2, 8);
    CHECK(run.fell_back == falls_back);
    CHECK(is_close(difference(run.got.d_q, want.d_q), 3e-3));
    CHECK(is_close(difference(run.got.d_kv, want.d_kv), 3e-3));
    CHECK(is_close(difference(run.got.d_sink, want.d_sink), 1e-3));
  }
}

TEST_CASE("Partial sums: tokens of several groups fold into one sum, exactly where fp16 is exact") {
  require_host_compiler();
  // q = 0 and 64 rows that every token names: P = 1 / 64, so with d_o = 1 a token adds 64 heads / 64 = 1 to
  // an element.
  InputOptions options = lists(150, 64, 64);  // groups of 64: the lists name all rows
  options.q_rms = 0;
  options.with_forward = false;
  HostTensors tensors = make_inputs(problem_of(64), options, 1);
  std::fill(tensors.d_o.begin(), tensors.d_o.end(), to_operand(DType::bf16, 1.0));
  add_forward(problem_of(64), tensors);
  const PartialRun run = run_partial(of_64_heads(), tensors);
  CHECK_FALSE(run.fell_back);
  for (std::int64_t row = 0; row < 64; ++row) {
    for (std::int64_t column = 0; column < 576; ++column) {
      const double value = run.got.d_kv[static_cast<std::size_t>(row * 576 + column)];
      REQUIRE(value == (column < 512 ? 150.0 : 0.0));
    }
  }
}

TEST_CASE("Partial sums: the scale follows d_o") {
  require_host_compiler();
  InputOptions options = lists(2, 120, 60);
  HostTensors tensors = make_inputs(problem_of(64), options, 5);
  for (std::size_t i = 0; i < tensors.indices.size(); ++i) tensors.indices[i] = static_cast<int>(i);
  add_forward(problem_of(64), tensors);
  const PartialRun one = run_partial(of_64_heads(), tensors);
  REQUIRE_FALSE(one.fell_back);
  for (const int exponent : {-27, 10}) {
    HostTensors scaled = tensors;
    scale_d_o(scaled, std::ldexp(1.0, exponent));
    const PartialRun other = run_partial(of_64_heads(), scaled);
    INFO("d_o * 2^" << exponent);
    CHECK_FALSE(other.fell_back);
    std::vector<double> want = one.got.d_kv;
    for (double& x : want) x = std::ldexp(x, exponent);
    // exp2's argument, in which the scale rides, is rounded elsewhere, and some P to the other neighbour.
    CHECK(difference(other.got.d_kv, want).relative_l2 < 1e-4);
  }
}

TEST_CASE("Partial sums: sums that overflow fp16 are computed again in fp32") {
  require_host_compiler();
  HostTensors tensors = make_inputs(problem_of(64), lists(3, 90, 70), 7);
  for (float& lse : tensors.lse) lse -= 24;  // not that of these inputs: P is 2^24 times too large
  const PartialRun run = run_partial(of_64_heads(), tensors);
  CHECK(run.fell_back);
  const Gradients want = backward(problem_of(64), tensors);
  CHECK(is_close(difference(run.got.d_kv, want.d_kv), 3e-3));
  CHECK(is_close(difference(run.got.d_q, want.d_q), 3e-3));
}

TEST_CASE("Partial sums: where the bound leaves too few bits, fp32 takes over") {
  require_host_compiler();
  HostTensors tensors = make_inputs(problem_of(64), lists(3, 90, 70), 7);
  // A huge row that no list names widens the bound by 2^120.
  for (std::int32_t& row : tensors.indices) row = row == 5 ? -1 : row;
  for (std::size_t i = 0; i < 512; ++i) tensors.kv[5 * 576 + i] = to_operand(DType::bf16, 1e37);
  add_forward(problem_of(64), tensors);
  const PartialRun run = run_partial(of_64_heads(), tensors);
  CHECK(run.fell_back);
  CHECK(is_close(difference(run.got.d_kv, backward(problem_of(64), tensors).d_kv), 3e-3));
}

TEST_CASE("Partial sums: what is not finite stays with the rows that it belongs to, and calls no fallback") {
  require_host_compiler();
  const HostTensors good = make_inputs(problem_of(64), lists(6, 120, 40), 9);
  const std::vector<double> want = backward(problem_of(64), good).d_kv;
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    HostTensors tensors = good;
    tensors.d_o[2 * 64 * 512 + 3 * 512 + 7] = to_operand(DType::bf16, bad);  // token 2
    const PartialRun run = run_partial(of_64_heads(), tensors);
    CHECK_FALSE(run.fell_back);
    for (std::int64_t row = 0; row < 120; ++row) {
      INFO("row " << row << ", d_o " << bad);
      REQUIRE(row_is_finite(run.got.d_kv, row) == !names(tensors, 2, static_cast<std::int32_t>(row)));
      if (names(tensors, 2, static_cast<std::int32_t>(row))) continue;
      const std::vector<double> mine(run.got.d_kv.begin() + row * 576,
                                     run.got.d_kv.begin() + (row + 1) * 576);
      const std::vector<double> right(want.begin() + row * 576, want.begin() + (row + 1) * 576);
      CHECK(is_close(difference(mine, right), 5e-3));
    }
  }
  HostTensors unseen = good;  // NaN in a row that no list names, and in the d_o of a token without entries
  for (std::int32_t& row : unseen.indices) row = row == 5 ? -1 : row;
  std::fill(unseen.indices.begin() + 40, unseen.indices.begin() + 80, -1);
  add_forward(problem_of(64), unseen);
  const Gradients clean = backward(problem_of(64), unseen);
  for (std::size_t i = 0; i < 576; ++i) unseen.kv[5 * 576 + i] = 0x7fc0;
  const PartialRun run = run_partial(of_64_heads(), unseen);
  CHECK_FALSE(run.fell_back);
  CHECK(is_close(difference(run.got.d_kv, clean.d_kv), 3e-3));
}

TEST_CASE("Partial sums: gradients whose squares overflow are computed again in fp32") {
  require_host_compiler();
  HostTensors tensors = make_inputs(problem_of(64), lists(3, 90, 70), 7);
  scale_d_o(tensors, 1e19);
  add_forward(problem_of(64), tensors);
  const PartialRun run = run_partial(of_64_heads(), tensors);
  CHECK(run.fell_back);
  CHECK(is_close(difference(run.got.d_kv, backward(problem_of(64), tensors).d_kv), 3e-3));
}

TEST_CASE("Partial sums: an entry that a list has twice counts twice") {
  require_host_compiler();
  InputOptions options = lists(2, 8, 3);
  options.q_rms = 0;
  options.with_forward = false;
  HostTensors tensors = make_inputs(problem_of(64), options, 1);
  tensors.indices = {3, 3, 5, 5, 3, 3};
  std::fill(tensors.d_o.begin(), tensors.d_o.end(), to_operand(DType::bf16, 1.0));
  add_forward(problem_of(64), tensors);
  const PartialRun run = run_partial(of_64_heads(), tensors);
  CHECK_FALSE(run.fell_back);
  CHECK(run.got.d_kv[3 * 576] == smla_test::Approx(2 * 64 * 2.0 / 3).epsilon(2e-3));
  CHECK(run.got.d_kv[5 * 576] == smla_test::Approx(2 * 64 * 1.0 / 3).epsilon(2e-3));
  CHECK(run.got.d_kv[4 * 576] == 0);
}

TEST_CASE("Partial sums: no gradient is no gradient") {
  require_host_compiler();
  HostTensors tensors = make_inputs(problem_of(64), lists(3, 90, 70), 7);
  std::fill(tensors.d_o.begin(), tensors.d_o.end(), std::uint16_t{0});
  const PartialRun run = run_partial(of_64_heads(), tensors);
  CHECK_FALSE(run.fell_back);
  CHECK(std::all_of(run.got.d_kv.begin(), run.got.d_kv.end(), [](double x) { return x == 0; }));
}

TEST_CASE("Partial sums: calls without tokens, rows or entries") {
  require_host_compiler();
  for (const auto& [queries, keys, topk] :
       {std::array{0, 30, 10}, std::array{3, 0, 10}, std::array{3, 30, 0}}) {
    const HostTensors tensors = make_inputs(problem_of(64), lists(queries, keys, topk), 5);
    const PartialRun run = run_partial(of_64_heads(), tensors);
    INFO("S " << queries << ", S_kv " << keys << ", topk " << topk);
    CHECK(std::all_of(run.got.d_kv.begin(), run.got.d_kv.end(), [](double x) { return x == 0; }));
    CHECK(std::all_of(run.got.d_q.begin(), run.got.d_q.end(), [](double x) { return x == 0; }));
  }
}
