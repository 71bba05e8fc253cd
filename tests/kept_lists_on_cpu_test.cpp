// Lists that the caller keeps, on the emulator: one call's pre-pass writes them, later calls over the same
// indices do without.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cpu_kernels.h"
#include "plan/workspace.h"

using namespace smla_test;
using emulator::GlobalBuffer;

namespace {

struct Variant {
  const char* name;
  Problem problem;
  InputOptions inputs;
  OrderRequest order = OrderRequest::automatic;
  int sort_shared_bytes = 227 * 1024;
  std::uint32_t virtual_sms = 2;
  ConfigRequest request = {};
};

InputOptions untidy(std::int64_t queries, std::int64_t keys, std::int64_t topk) {
  return {.queries = queries,
          .keys = keys,
          .topk = topk,
          .query_offset = 60,
          .junk_share = 0.1,
          .hole_share = 0.1,
          .duplicate_share = 0.1,
          .dead_share = 0.2};
}

// Other values under the same lists: another layer that attends to the same rows.
HostTensors with_lists_of(const HostTensors& first, const Problem& problem, const InputOptions& inputs,
                          std::uint64_t seed) {
  HostTensors other = make_inputs(problem, inputs, seed);
  other.indices = first.indices;
  other.topk_length = first.topk_length;
  add_forward(problem, other);
  return other;
}

Order order_of(const Variant& v, const Config& config, const Lengths& n) {
  const int sms = static_cast<int>(v.virtual_sms);
  return choose_order(
      v.problem, config, n,
      {.multiprocessors = sms, .ctas_in_flight = sms, .sort_shared_limit = v.sort_shared_bytes}, v.order);
}

// Memory for the lists of a variant's calls; every run of a call has a workspace of its own, of NaN bits.
GlobalBuffer lists_for(const Variant& v, const Config& config) {
  const InputOptions& o = v.inputs;
  const Lengths n = {o.batch, o.queries, o.keys, o.topk};
  const WorkspaceLayout layout = workspace_layout(v.problem, config, n, order_of(v, config, n), true);
  return {static_cast<std::size_t>(layout.lists.bytes), "lists", GlobalBuffer::Access::read_write};
}

void keep_lists_in(const GlobalBuffer& lists, bool ready, Call& call) {
  call.lists = lists.data();
  call.lists_bytes = lists.bytes();
  call.lists_are_ready = ready;
}

std::vector<unsigned char> contents(const GlobalBuffer& buffer) {
  const auto* begin = static_cast<const unsigned char*>(buffer.data());
  return {begin, begin + buffer.bytes()};
}

void run_variant(const Variant& v) {
  const CpuSubject subject = make_subject(v.problem, parse_arch("sm_90a"), v.request);
  const HostTensors first = make_inputs(v.problem, v.inputs, 11);
  const HostTensors second = with_lists_of(first, v.problem, v.inputs, 12);
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    INFO(v.name << ", " << subject.source.name << ", seed " << seed);
    GlobalBuffer lists = lists_for(v, subject.config);
    REQUIRE(lists.bytes() > 0);
    const emulator::CpuOptions options = {.seed = seed,
                                          .virtual_sms = v.virtual_sms,
                                          .step_limit = 50'000'000,
                                          .sort_shared_bytes = v.sort_shared_bytes};
    const auto run = [&](const HostTensors& tensors, bool ready) {
      return run_subject(subject, tensors, backward(v.problem, tensors), v.order, options,
                         [&](Call& call) { keep_lists_in(lists, ready, call); });
    };
    const CpuVerdict writing = run(first, false);
    INFO(emulator::describe(writing.report));
    CHECK(writing.good());
    const std::vector<unsigned char> written = contents(lists);
    const CpuVerdict reading = run(second, true);
    INFO(emulator::describe(reading.report));
    CHECK(reading.good());
    CHECK(reading.report.launches + 1 == writing.report.launches);
    CHECK(contents(lists) == written);

    // Nothing but the lists says what a later call attends to.
    const std::vector<unsigned char> empty(lists.bytes());
    lists.fill(empty.data(), empty.size());
    const emulator::CpuCall call = emulator::make_cpu_call(v.problem, second, v.order);
    Call with_empty_lists = call.call;
    keep_lists_in(lists, true, with_empty_lists);
    CHECK(emulator::run_on_cpu(subject.source, *subject.kernels, v.problem, subject.config, with_empty_lists,
                               options)
              .clean());
    const std::vector<double> d_q = emulator::outputs_of(v.problem, call).d_q;
    CHECK(std::all_of(d_q.begin(), d_q.end(), [](double x) { return x == 0; }));
  }
}

}  // namespace

TEST_CASE("Lists that one call wrote serve the next, with other values and in a fresh workspace") {
  require_host_compiler();
  const std::vector<Variant> variants = {
      {"64 heads, sorted, causal, lengths",
       {.heads = 64, .causal = true, .has_topk_length = true},
       untidy(4, 120, 100),
       OrderRequest::sorted},
      {"2 groups of 64 heads, throttled, sink",
       {.heads = 128, .kv_groups = 2, .d_tail = 0, .has_sink = true},
       untidy(3, 140, 130),
       OrderRequest::sorted_throttled},
      {"a pair, throttled", {.heads = 128}, untidy(4, 120, 70), OrderRequest::sorted_throttled},
      {"16 heads, 4 tokens share a list, delta", {.heads = 16, .has_delta = true}, untidy(9, 90, 50)},
      {"16 heads, the last wave's lists shared",
       {.heads = 16},
       {.queries = 9, .keys = 400, .topk = 200},
       OrderRequest::automatic,
       227 * 1024,
       8},
      {"6 heads in 2 groups, lists joined",
       {.heads = 6, .kv_groups = 2, .causal = true},
       untidy(13, 100, 70),
       OrderRequest::automatic,
       1072},
      {"64 heads, deterministic, sorted",
       {.heads = 64, .deterministic = true},
       untidy(3, 120, 100),
       OrderRequest::sorted},
  };
  for (const Variant& v : variants) {
    SECTION(v.name) { run_variant(v); }
  }
}

TEST_CASE("Kept lists with partial sums: both the call and its fallback read them") {
  require_host_compiler();
  const Variant v = {"16 heads, partial sums",
                     {.heads = 16, .d_kv_type = DkvType::fp32, .accumulate = Accumulate::partial},
                     untidy(9, 150, 100)};
  const CpuSubject partial = make_subject(v.problem, parse_arch("sm_90a"));
  const CpuSubject fp32 =
      make_subject(with_fp32_sums(v.problem), parse_arch("sm_90a"), same_blocks(partial.config));
  const emulator::CpuFallback fallback = {fp32.source, *fp32.kernels};
  const HostTensors first = make_inputs(v.problem, v.inputs, 3);
  HostTensors second = with_lists_of(first, v.problem, v.inputs, 4);
  for (float& lse : second.lse) lse -= 24;  // not that of these inputs: P is 2^24 times too large
  const GlobalBuffer lists = lists_for(v, partial.config);
  REQUIRE(lists.bytes() > 0);
  std::uint64_t launches[2] = {};
  for (const bool ready : {false, true}) {  // the first call needs no fallback, the second does
    const HostTensors& tensors = ready ? second : first;
    const emulator::CpuCall call = emulator::make_cpu_call(v.problem, tensors, v.order);
    Call kept = call.call;
    keep_lists_in(lists, ready, kept);
    const emulator::Report report = emulator::run_on_cpu(
        partial.source, *partial.kernels, v.problem, partial.config, kept,
        {.seed = 2, .virtual_sms = 3, .step_limit = 50'000'000}, &fallback);
    INFO("ready " << ready << "\n" << emulator::describe(report));
    REQUIRE(report.clean());
    launches[ready ? 1 : 0] = report.launches;
    const emulator::CpuOutputs got = emulator::outputs_of(v.problem, call);
    const Gradients want = backward(v.problem, tensors);
    CHECK(is_close(difference(got.d_q, want.d_q), 3e-3));
    CHECK(is_close(difference(got.d_kv, want.d_kv), 3e-3));
  }
  CHECK(launches[0] == 8);  // of which the fallback's 3 return at once
  CHECK(launches[1] == 7);
}
