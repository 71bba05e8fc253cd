// Every schedule on the emulator: what the generated kernels compute, in several orders of execution.
#include <cstdio>
#include <string>
#include <vector>

#include "cpu_kernels.h"

using namespace smla_test;

namespace {

struct Variant {
  const char* name;
  Problem problem;
  const char* arch;
  ConfigRequest request = {};
  InputOptions inputs = {};
  OrderRequest order = OrderRequest::callers;
  std::uint32_t virtual_sms = 2;
  Split split = {};  // of the last wave's lists, which these lengths have to lead to
};

const ConfigRequest kOneCta = {.schedule = Schedule::wgmma};  // where the rules choose a pair

constexpr std::uint64_t kSeeds = 4;  // both policies of the scheduler, CTAs in order and shuffled
constexpr std::uint64_t kLongSeeds = 40;

InputOptions lists(std::int64_t queries, std::int64_t keys, std::int64_t topk) {
  return {.queries = queries, .keys = keys, .topk = topk};
}

// Invalid entries, holes, repeats and dead rows.
InputOptions untidy(std::int64_t queries, std::int64_t keys, std::int64_t topk) {
  InputOptions options = lists(queries, keys, topk);
  options.junk_share = 0.1;
  options.hole_share = 0.1;
  options.duplicate_share = 0.1;
  options.dead_share = 0.2;
  return options;
}

InputOptions untidy_batches(std::int64_t queries, std::int64_t keys, std::int64_t topk) {
  InputOptions options = untidy(queries, keys, topk);
  options.batch = 2;
  options.length_per_group = true;
  return options;
}

InputOptions causal(std::int64_t queries, std::int64_t keys, std::int64_t topk, std::int64_t query_offset) {
  InputOptions options = untidy(queries, keys, topk);
  options.query_offset = query_offset;
  return options;
}

emulator::Report run_variant(const Variant& v) {
  const CpuSubject subject = make_subject(v.problem, parse_arch(v.arch), v.request);
  InputOptions inputs = v.inputs;
  if (v.problem.dtype == DType::fp16) inputs.d_o_rms = 8;
  const int sms = static_cast<int>(v.virtual_sms);
  CHECK(choose_order(v.problem, subject.config, {inputs.batch, inputs.queries, inputs.keys, inputs.topk},
                     {.multiprocessors = sms, .ctas_in_flight = sms, .sort_shared_limit = 227 * 1024},
                     v.order)
            .split == v.split);
  emulator::Report total;
  const std::uint64_t seeds = long_tests() ? kLongSeeds : kSeeds;
  const HostTensors tensors = make_inputs(v.problem, inputs, 11);
  const Gradients want = backward(v.problem, tensors);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const CpuVerdict verdict =
        run_subject(subject, tensors, want, v.order,
                    {.seed = seed, .virtual_sms = v.virtual_sms, .step_limit = 50'000'000});
    INFO(v.name << ", " << subject.source.name << ", seed " << seed);
    INFO(emulator::describe(verdict.report));
    INFO("d_q " << describe(verdict.d_q) << "; d_kv " << describe(verdict.d_kv) << "; d_sink "
                << describe(verdict.d_sink));
    CHECK(verdict.report.clean());
    CHECK(verdict.values_ok);
    total.add(verdict.report);
  }
  std::printf("%-44s %llu seeds: %s", v.name, static_cast<unsigned long long>(seeds),
              emulator::describe(total).c_str());
  return total;
}

void run_all(const std::vector<Variant>& variants) {
  require_host_compiler();
  emulator::Report total;
  for (const Variant& v : variants) {
    SECTION(v.name) {
      total.add(run_variant(v));
    }
  }
}

}  // namespace

TEST_CASE("Schedule cp_async computes the gradients on a CPU, in any order of execution") {
  run_all({
      {"1 head, one entry", {.heads = 1}, "sm_90", {}, lists(3, 40, 1)},
      {"16 heads, causal, one tile", {.heads = 16, .causal = true}, "sm_80", {}, causal(4, 60, 17, 40)},
      {"16 heads, untidy lists, lengths, two batches",
       {.heads = 16, .has_topk_length = true},
       "sm_90",
       {},
       untidy_batches(3, 90, 100)},
      {"40 heads, fp16, no tail",
       {.heads = 40, .d_tail = 0, .dtype = DType::fp16, .has_sink = true},
       "sm_80",
       {},
       untidy(3, 70, 64)},
      {"40 heads in 5 groups, delta given",
       {.heads = 40, .kv_groups = 5, .has_delta = true},
       "sm_90",
       {},
       untidy(2, 50, 33)},
      {"64 heads, two stages, d_kv as fp32",
       {.heads = 64, .has_sink = true, .lse_includes_sink = true, .d_kv_type = DkvType::fp32},
       "sm_90",
       {.schedule = Schedule::cp_async},
       untidy(3, 150, 100)},
      {"64 heads, small blocks of an sm_86",
       {.heads = 64, .lse_base = LseBase::e},
       "sm_86",
       {},
       untidy(2, 80, 64)},
      {"128 heads, topk beyond the rows",
       {.heads = 128, .has_sink = true, .lse_base = LseBase::e},
       "sm_90",
       {.schedule = Schedule::cp_async},
       untidy(2, 120, 200)},
  });
}

TEST_CASE("Schedule wgmma computes the gradients on a CPU, in any order of execution") {
  run_all({
      {"64 heads, one entry", {.heads = 64}, "sm_90a", {}, lists(2, 40, 1)},
      {"64 heads, causal, part of a tile",
       {.heads = 64, .causal = true},
       "sm_90a",
       {},
       causal(3, 60, 17, 40)},
      {"64 heads, a whole tile", {.heads = 64, .has_sink = true}, "sm_90a", {}, lists(3, 100, 64)},
      {"64 heads, untidy lists, lengths, two batches",
       {.heads = 64, .has_topk_length = true, .has_delta = true},
       "sm_90a",
       {},
       untidy_batches(2, 150, 200)},
      {"64 heads, fp16, no tail, d_kv as fp32",
       {.heads = 64, .d_tail = 0, .dtype = DType::fp16, .d_kv_type = DkvType::fp32},
       "sm_90a",
       {},
       untidy(3, 120, 100)},
      {"128 heads in 2 groups, fp16",
       {.heads = 128, .kv_groups = 2, .dtype = DType::fp16, .lse_base = LseBase::e},
       "sm_90a",
       {},
       untidy(2, 90, 100)},
      {"128 heads, no tail",
       {.heads = 128, .d_tail = 0, .has_sink = true, .lse_includes_sink = true},
       "sm_90a",
       kOneCta,
       untidy(2, 150, 130)},
  });
}

TEST_CASE("Schedule wgmma computes the gradients of neighbouring tokens that share a CTA") {
  run_all({
      {"16 heads, 4 tokens and a part", {.heads = 16}, "sm_90a", {}, untidy(6, 120, 70)},
      {"8 heads, 8 tokens, causal, lengths, sink",
       {.heads = 8, .causal = true, .has_sink = true, .has_topk_length = true},
       "sm_90a",
       {},
       causal(11, 100, 60, 40)},
      {"1 head, 3 groups, two batches, delta given",
       {.heads = 3, .kv_groups = 3, .has_topk_length = true, .has_delta = true},
       "sm_90a",
       {},
       untidy_batches(9, 80, 40)},
      {"20 heads, 2 tokens, fp16, no tail",
       {.heads = 20, .d_tail = 0, .dtype = DType::fp16},
       "sm_90a",
       {},
       untidy(3, 90, 100)},
      {"40 heads, padded", {.heads = 40, .has_sink = true}, "sm_90a", {}, untidy(2, 90, 100)},
      {"96 heads, a whole block and a padded one", {.heads = 96}, "sm_90a", kOneCta, untidy(2, 90, 70)},
      {"16 heads, swept and throttled",
       {.heads = 16},
       "sm_90a",
       {},
       untidy(13, 100, 70),
       OrderRequest::sorted_throttled,
       3},
  });
}

TEST_CASE("The last wave's lists are shared by the CTAs that would be idle") {
  const auto call = [](const char* name, const Problem& problem, std::uint32_t sms,
                       const InputOptions& inputs, const Split& split) {
    return Variant{name, problem, "sm_90a", {}, inputs, OrderRequest::automatic, sms, split};
  };
  Problem all = {.heads = 64, .has_sink = true, .has_topk_length = true};
  run_all({
      call("64 heads, a wave and a list", {.heads = 64}, 4, lists(5, 400, 320), {1, 3}),
      call("64 heads, 2 lists alone, untidy, no tail", {.heads = 64, .d_tail = 0}, 8, untidy(2, 400, 250),
           {2, 4}),
      call("64 heads, 2 batches, lengths, sink", all, 3, untidy_batches(2, 400, 300), {1, 3}),
      call("64 heads, fp16, delta given, causal",
           {.heads = 64, .dtype = DType::fp16, .causal = true, .has_delta = true}, 4,
           causal(5, 300, 290, 200), {1, 3}),
      call("128 heads, sink", {.heads = 128, .has_sink = true}, 8, untidy(1, 300, 300), {2, 3}),
      call("a pair of 96 heads, no tail, lengths, a wave and a token",
           {.heads = 96, .d_tail = 0, .has_topk_length = true}, 6, untidy(4, 400, 330), {2, 3}),
      call("pairs of two groups, sink", {.heads = 256, .kv_groups = 2, .has_sink = true}, 8,
           untidy(1, 500, 500), {4, 2}),
      call("96 heads in 2 groups, padded", {.heads = 96, .kv_groups = 2}, 8, lists(1, 300, 300), {2, 3}),
      call("16 heads, 4 tokens and a part, sink", {.heads = 16, .has_sink = true}, 4, untidy(18, 600, 320),
           {1, 4}),
      call("8 heads, 8 tokens, causal, lengths", {.heads = 8, .causal = true, .has_topk_length = true}, 7,
           causal(11, 700, 200, 400), {2, 3}),
  });
}

TEST_CASE("Shares of lists shorter than topk: some have no tile, and d_q has the same bits in every run") {
  require_host_compiler();
  const Problem problem = {.heads = 64, .has_sink = true, .has_topk_length = true};
  const CpuSubject subject = make_subject(problem, parse_arch("sm_90a"));
  for (const auto& [first, second] : {std::array{0, 64}, std::array{65, 129}, std::array{-3, 320}}) {
    INFO("lengths " << first << " and " << second);
    HostTensors tensors = make_inputs(problem, lists(2, 400, 320), 13);
    tensors.topk_length = {first, second};
    add_forward(problem, tensors);
    const Gradients want = backward(problem, tensors);
    std::vector<double> d_q;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const emulator::CpuCall call = emulator::make_cpu_call(problem, tensors, OrderRequest::callers);
      const emulator::Report report =
          emulator::run_on_cpu(subject.source, *subject.kernels, problem, subject.config, call.call,
                               {.seed = seed, .virtual_sms = 8, .step_limit = 50'000'000});
      INFO("seed " << seed << "\n" << emulator::describe(report));
      CHECK(report.clean());
      const emulator::CpuOutputs got = emulator::outputs_of(problem, call);
      CHECK(is_close(difference(got.d_q, want.d_q), 3e-3));
      CHECK(is_close(difference(got.d_kv, want.d_kv), 3e-3));
      CHECK(is_close(difference(got.d_sink, want.d_sink), 1e-3));
      if (seed == 0) d_q = got.d_q;
      CHECK(got.d_q == d_q);
    }
  }
}

TEST_CASE("Schedule wgmma_pair computes the gradients on a CPU, in any order of execution") {
  run_all({
      {"a pair, one entry", {.heads = 128}, "sm_90a", {}, lists(2, 40, 1)},
      {"a pair, causal, part of a tile, sink",
       {.heads = 128, .causal = true, .has_sink = true},
       "sm_90a",
       {},
       causal(3, 60, 17, 40)},
      {"a pair, untidy lists, lengths, two batches",
       {.heads = 128, .has_topk_length = true, .has_delta = true},
       "sm_90a",
       {},
       untidy_batches(2, 150, 200)},
      {"a pair of 96 heads", {.heads = 96, .lse_base = LseBase::e}, "sm_90a", {}, untidy(2, 90, 70)},
      {"a pair of 65 heads, no tail, d_kv as fp32",
       {.heads = 65, .d_tail = 0, .has_sink = true, .lse_includes_sink = true, .d_kv_type = DkvType::fp32},
       "sm_90a",
       {},
       untidy(3, 120, 100)},
      {"a pair of 128 heads, no tail", {.heads = 128, .d_tail = 0}, "sm_90a", {}, untidy(2, 150, 130)},
      {"pairs of 2 groups, 4 SMs",
       {.heads = 256, .kv_groups = 2, .causal = true},
       "sm_90a",
       {},
       causal(2, 90, 100, 60),
       OrderRequest::callers,
       4},
      {"two pairs a group", {.heads = 256}, "sm_90a", {}, untidy(1, 80, 70), OrderRequest::callers, 4},
  });
}

TEST_CASE("Lists that do not fit the pre-pass's shared memory are joined as they stand") {
  require_host_compiler();
  for (const Problem& problem :
       {Problem{.heads = 16, .causal = true, .has_topk_length = true}, Problem{.heads = 6, .kv_groups = 2}}) {
    const CpuSubject subject = make_subject(problem, parse_arch("sm_90a"));
    const HostTensors tensors = make_inputs(problem, causal(13, 100, 70, 60), 11);
    const Gradients want = backward(problem, tensors);
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const CpuVerdict verdict =
          run_subject(subject, tensors, want, OrderRequest::automatic,
                      {.seed = seed, .virtual_sms = 2, .step_limit = 50'000'000, .sort_shared_bytes = 1072});
      INFO(subject.source.name << ", seed " << seed << "\n" << emulator::describe(verdict.report));
      CHECK(verdict.good());
    }
  }
}

TEST_CASE("The sweep over sorted lists computes the same, with any number of CTAs side by side") {
  run_all({
      {"sorted, 1 SM", {.heads = 64}, "sm_90a", {}, untidy(3, 120, 100), OrderRequest::sorted, 1},
      {"sorted, causal, lengths, 3 SMs",
       {.heads = 64, .causal = true, .has_topk_length = true},
       "sm_90a",
       {},
       causal(6, 100, 130, 60),
       OrderRequest::sorted,
       3},
      {"throttled, 2 groups, 2 SMs",
       {.heads = 128, .kv_groups = 2, .d_tail = 0},
       "sm_90a",
       {},
       untidy(5, 140, 130),
       OrderRequest::sorted_throttled,
       2},
      {"throttled, 8 SMs",
       {.heads = 64},
       "sm_90a",
       {},
       untidy(20, 100, 70),
       OrderRequest::sorted_throttled,
       8},
  });
}

TEST_CASE("Both CTAs of a pair sweep from one place, with any number of pairs side by side") {
  run_all({
      {"a pair, sorted, 2 SMs",
       {.heads = 128, .has_topk_length = true},
       "sm_90a",
       {},
       untidy(4, 120, 100),
       OrderRequest::sorted},
      {"a pair, throttled, causal, 4 SMs",
       {.heads = 96, .d_tail = 0, .causal = true},
       "sm_90a",
       {},
       causal(10, 100, 130, 60),
       OrderRequest::sorted_throttled,
       4},
      {"pairs of 96 heads in 2 groups, throttled",
       {.heads = 192, .kv_groups = 2},
       "sm_90a",
       {},
       untidy(4, 140, 70),
       OrderRequest::sorted_throttled},
  });
}

TEST_CASE("Calls without tokens, rows or entries run on a CPU") {
  require_host_compiler();
  const CpuSubject pair = make_subject({.heads = 128, .has_sink = true}, parse_arch("sm_90a"));
  const CpuSubject wgmma = make_subject({.heads = 64, .has_sink = true}, parse_arch("sm_90a"));
  const CpuSubject cp_async = make_subject({.heads = 8, .has_sink = true}, parse_arch("sm_80"));
  for (const CpuSubject* subject : {&wgmma, &pair, &cp_async}) {
    for (const auto& [queries, keys, topk] :
         {std::array{0, 30, 10}, std::array{3, 0, 10}, std::array{3, 30, 0}}) {
      const HostTensors tensors = make_inputs(subject->problem, lists(queries, keys, topk), 5);
      const CpuVerdict verdict =
          run_subject(*subject, tensors, backward(subject->problem, tensors), OrderRequest::callers,
                      {.seed = 3, .virtual_sms = 2, .step_limit = 1'000'000});
      INFO(subject->source.name << ", S " << queries << ", S_kv " << keys << ", topk " << topk);
      INFO(emulator::describe(verdict.report));
      CHECK(verdict.good());
    }
  }
}
