// Deterministic problems on the emulator: sums that repeat bit for bit, and what integers could lose.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "cpu_kernels.h"
#include "reference/half.h"

using namespace smla_test;

namespace {

struct Run {
  OrderRequest order = OrderRequest::callers;
  std::uint64_t seed = 1;
  std::uint32_t virtual_sms = 2;
};

emulator::CpuOutputs run_bits(const CpuSubject& subject, const HostTensors& tensors, const Run& how = {}) {
  const emulator::CpuCall call = emulator::make_cpu_call(subject.problem, tensors, how.order);
  const emulator::Report report =
      emulator::run_on_cpu(subject.source, *subject.kernels, subject.problem, subject.config, call.call,
                           {.seed = how.seed, .virtual_sms = how.virtual_sms, .step_limit = 50'000'000});
  INFO(subject.source.name << ", seed " << how.seed << "\n" << emulator::describe(report));
  REQUIRE(report.clean());
  return emulator::outputs_of(subject.problem, call);
}

Problem problem_of(int heads) {
  return {.heads = heads, .d_kv_type = DkvType::fp32, .deterministic = true};
}

// One of each schedule.
std::vector<CpuSubject> subjects(const Problem& small, const Problem& large) {
  std::vector<CpuSubject> both;
  both.push_back(make_subject(small, parse_arch("sm_80")));
  both.push_back(make_subject(large, parse_arch("sm_90a")));
  return both;
}
std::vector<CpuSubject> subjects() {
  return subjects(problem_of(16), problem_of(64));
}

// Rows in many lists, with repeats, holes and dead rows.
InputOptions shared_rows() {
  return {.queries = 12,
          .keys = 40,
          .topk = 70,
          .junk_share = 0.1,
          .hole_share = 0.1,
          .duplicate_share = 0.2,
          .dead_share = 0.1};
}

HostTensors with_shuffled_lists(HostTensors tensors, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (auto list = tensors.indices.begin(); list != tensors.indices.end(); list += tensors.topk) {
    std::shuffle(list, list + tensors.topk, random);
  }
  return tensors;
}

bool names(const HostTensors& t, std::int64_t token, std::int32_t row) {
  const auto list = t.indices.begin() + token * t.topk;
  return std::find(list, list + t.topk, row) != list + t.topk;
}

std::vector<double> row_of(const std::vector<double>& d_kv, std::int64_t row) {
  return {d_kv.begin() + row * 576, d_kv.begin() + (row + 1) * 576};
}

bool finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

void scale_d_o(HostTensors& t, const Problem& p, std::int64_t token, double factor) {
  const auto size = static_cast<std::ptrdiff_t>(p.heads) * p.d_v;
  std::for_each(t.d_o.begin() + token * size, t.d_o.begin() + (token + 1) * size, [&](std::uint16_t& x) {
    x = to_operand(p.dtype, factor * static_cast<double>(to_float(p.dtype, x)));
  });
}

}  // namespace

TEST_CASE("Deterministic: the same bits in any order of execution, on any number of SMs") {
  require_host_compiler();
  Problem groups = problem_of(40);
  groups.kv_groups = 5;
  groups.dtype = DType::fp16;
  groups.has_sink = groups.has_topk_length = true;
  Problem large = problem_of(128);
  large.kv_groups = 2;
  large.d_tail = 0;
  large.causal = large.has_sink = true;
  std::vector<CpuSubject> all = subjects();
  for (CpuSubject& more : subjects(groups, large)) all.push_back(std::move(more));
  all.push_back(make_subject(problem_of(16), parse_arch("sm_90a")));  // four tokens share a list
  all.push_back(make_subject({.heads = 14, .kv_groups = 2, .causal = true, .deterministic = true},
                             parse_arch("sm_90a")));
  for (const CpuSubject& subject : all) {
    InputOptions options = shared_rows();
    options.queries = 8;
    options.keys = 150;
    options.topk = 220;  // three tiles and more: two are added up alike in either order
    options.query_offset = 140;
    const HostTensors tensors = make_inputs(subject.problem, options, 3);
    std::vector<OrderRequest> orders = {OrderRequest::callers};
    if (subject.config.schedule == Schedule::wgmma) {
      orders.push_back(OrderRequest::sorted);
      orders.push_back(OrderRequest::sorted_throttled);
    }
    const emulator::CpuOutputs callers = run_bits(subject, tensors);
    for (const OrderRequest order : orders) {
      INFO(subject.source.name << ", order " << static_cast<int>(order));
      const emulator::CpuOutputs first = run_bits(subject, tensors, {order});
      CHECK((first.d_kv == callers.d_kv));  // a row's addends do not depend on where they stand in a list
      for (const Run& how : {Run{order, 2, 1}, Run{order, 3, 3}, Run{order, 4, 8}}) {
        INFO("seed " << how.seed << ", " << how.virtual_sms << " SMs");
        const emulator::CpuOutputs again = run_bits(subject, tensors, how);
        CHECK((again.d_q == first.d_q));
        CHECK((again.d_kv == first.d_kv));
        CHECK((again.d_sink == first.d_sink));
      }
    }
  }
}

TEST_CASE("Deterministic: lists in another order give the same bits of d_kv, and fp32 sums do not") {
  require_host_compiler();
  Problem small = problem_of(16), large = problem_of(64);
  for (const bool deterministic : {true, false}) {
    small.deterministic = large.deterministic = deterministic;
    std::vector<CpuSubject> all = subjects(small, large);
    if (deterministic) all.push_back(make_subject(small, parse_arch("sm_90a")));
    for (const CpuSubject& subject : all) {
      INFO(subject.source.name);
      const HostTensors tensors = make_inputs(subject.problem, shared_rows(), 4);
      const emulator::CpuOutputs want = run_bits(subject, tensors);
      int equal = 0;
      for (std::uint64_t seed = 5; seed < 8; ++seed) {
        equal += run_bits(subject, with_shuffled_lists(tensors, seed), {.seed = seed}).d_kv == want.d_kv;
      }
      CHECK(equal == (deterministic ? 3 : 0));
    }
  }
}

TEST_CASE("Deterministic: what cancels leaves nothing") {
  require_host_compiler();
  for (const CpuSubject& subject : subjects()) {
    INFO(subject.source.name);
    const Problem& p = subject.problem;
    HostTensors t = make_inputs(p, {.queries = 12, .keys = 40, .topk = 30}, 6);
    // Token i + 6 is token i with the other sign of d_o.
    const auto repeat = [&](auto& values) {
      std::copy(values.begin(), values.begin() + std::ssize(values) / 2,
                values.begin() + std::ssize(values) / 2);
    };
    repeat(t.q), repeat(t.o), repeat(t.d_o), repeat(t.lse), repeat(t.indices);
    for (std::int64_t token = 6; token < 12; ++token) scale_d_o(t, p, token, -1);
    const emulator::CpuOutputs got = run_bits(subject, t);
    CHECK(std::all_of(got.d_kv.begin(), got.d_kv.end(), [](double x) { return x == 0; }));
    CHECK(std::any_of(got.d_q.begin(), got.d_q.end(), [](double x) { return x != 0; }));
  }
}

TEST_CASE("Deterministic: a value that is no number reaches the rows of its list, and no others") {
  require_host_compiler();
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const CpuSubject& subject : subjects()) {
    const Problem& p = subject.problem;
    const HostTensors good = make_inputs(p, {.queries = 5, .keys = 40, .topk = 12}, 7);
    HostTensors without = good;
    std::fill_n(without.indices.begin() + 2 * good.topk, good.topk, -1);
    const emulator::CpuOutputs want = run_bits(subject, without);
    for (const float value : {nan, inf, -inf}) {
      for (int tensor = 0; tensor < 3; ++tensor) {
        INFO(subject.source.name << ", " << value << " in tensor " << tensor);
        HostTensors bad = good;
        const std::int64_t head = 2 * p.heads + 3;
        if (tensor == 0) bad.d_o[static_cast<std::size_t>(head * p.d_v + 5)] = to_operand(p.dtype, value);
        if (tensor == 1) bad.q[static_cast<std::size_t>(head * p.d_qk() + 570)] = to_operand(p.dtype, value);
        if (tensor == 2) bad.o[static_cast<std::size_t>(head * p.d_v + 511)] = to_operand(p.dtype, value);
        const emulator::CpuOutputs got = run_bits(subject, bad);
        for (std::int32_t row = 0; row < 40; ++row) {
          INFO("row " << row);
          const std::vector<double> values = row_of(got.d_kv, row);
          if (names(bad, 2, row)) {
            // An infinite logit of the wrong sign is an entry with P = 0, or NaN where it meets a zero.
            if (tensor != 1)
              CHECK(std::none_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); }));
            CHECK(!finite(values));
          } else {
            CHECK(is_close(difference(values, row_of(want.d_kv, row)), 1e-6));
          }
        }
      }
    }
  }
}

TEST_CASE("Deterministic: rows that no list names have no say, whatever they hold") {
  require_host_compiler();
  for (const CpuSubject& subject : subjects()) {
    const Problem& p = subject.problem;
    HostTensors t = make_inputs(p, {.queries = 5, .keys = 40, .topk = 12}, 8);
    for (std::int32_t& entry : t.indices) entry %= 20;
    add_forward(p, t);
    const emulator::CpuOutputs want = run_bits(subject, t);
    for (const double value : {1e38, std::numeric_limits<double>::quiet_NaN()}) {
      INFO(subject.source.name << ", " << value);
      std::fill(t.kv.begin() + std::ssize(t.kv) / 2, t.kv.end(), to_operand(p.dtype, value));
      const emulator::CpuOutputs got = run_bits(subject, t);
      CHECK((got.d_kv == want.d_kv));
      CHECK((got.d_q == want.d_q));
    }
  }
}

TEST_CASE("Deterministic: gradients of any size keep their digits, small rows beside large ones too") {
  require_host_compiler();
  for (const CpuSubject& subject : subjects()) {
    const Problem& p = subject.problem;
    for (const double rms : {1e-30, 1e-8, 1.0, 1e4, 1e15}) {
      INFO(subject.source.name << ", d_o of " << rms);
      const HostTensors t = make_inputs(p, {.queries = 6, .keys = 60, .topk = 30, .d_o_rms = rms}, 9);
      CHECK(difference(run_bits(subject, t).d_kv, backward(p, t).d_kv).relative_l2 < 3e-3);
    }
    for (const double factor : {0x1p10, 0x1p20}) {
      INFO(subject.source.name << ", one token's d_o times " << factor);
      HostTensors t = make_inputs(p, {.queries = 6, .keys = 60, .topk = 20}, 10);
      scale_d_o(t, p, 1, factor);
      add_forward(p, t);
      const std::vector<double> got = run_bits(subject, t).d_kv, want = backward(p, t).d_kv;
      for (std::int32_t row = 0; row < 60; ++row) {
        INFO("row " << row);
        CHECK(is_close(difference(row_of(got, row), row_of(want, row)), 6e-3));
      }
    }
  }
}

TEST_CASE("Deterministic: large keys and a large delta are in the bounds") {
  require_host_compiler();
  Problem small = problem_of(16), large = problem_of(64);
  small.has_delta = large.has_delta = true;
  for (const CpuSubject& subject : subjects(small, large)) {
    INFO(subject.source.name);
    const Problem& p = subject.problem;
    HostTensors t = make_inputs(p, {.queries = 6, .keys = 60, .topk = 30}, 11);
    for (std::size_t i = 0; i < t.q.size(); ++i) {
      if (i % 576 < 512) t.q[i] = 0;  // scores by the tail alone
    }
    HostTensors keys = t, delta = t;
    for (std::size_t i = 0; i < t.kv.size(); ++i) {
      const double value = static_cast<double>(to_float(p.dtype, t.kv[i]));
      if (i % 576 < 512) keys.kv[i] = to_operand(p.dtype, value * 0x1p40);
    }
    add_forward(p, keys);
    std::fill(keys.delta.begin(), keys.delta.end(), 0.0f);
    CHECK(is_close(difference(run_bits(subject, keys).d_kv, backward(p, keys).d_kv), 3e-3));
    add_forward(p, delta);
    std::fill(delta.delta.begin(), delta.delta.end(), 0x1p40f);
    CHECK(is_close(difference(run_bits(subject, delta).d_kv, backward(p, delta).d_kv), 3e-3));
  }
}
