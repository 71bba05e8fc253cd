// Calls beside each other: threads, streams, micro-batches, plans that go while their work is queued, two
// GPUs.
#include <exception>
#include <mutex>
#include <thread>

#include "cases_of_options.h"
#include "catch.h"
#include "gpu_call.h"

using namespace smla_test;

namespace {

Problem small_problem(const Setting& setting) {
  return {.heads = setting.heads_per_group, .has_sink = true, .lse_base = LseBase::e};
}

Problem wide_problem(const Setting& setting) {
  return {.heads = setting.heads_per_group, .d_kv_type = DkvType::fp32};
}

// Kernels of all tests here are compiled before the first.
const std::vector<Setting>& prepared_settings() {
  static const std::vector<Setting> all = [] {
    const Gpu& gpu = require_gpu();
    std::vector<std::pair<Problem, ConfigRequest>> wanted;
    for (const Setting& s : settings(gpu)) {
      for (const Problem& p : {small_problem(s), wide_problem(s)}) {
        const std::pair<Problem, ConfigRequest> one = {p, {.schedule = s.schedule}};
        if (std::find(wanted.begin(), wanted.end(), one) == wanted.end()) wanted.push_back(one);
      }
    }
    prepare_together(wanted, gpu.arch);
    return settings(gpu);
  }();
  return all;
}

Case small_case(const Setting& setting, std::uint64_t seed) {
  Case c{.problem = small_problem(setting)};
  c.tensors = make_inputs(c.problem, {.queries = 9, .keys = 150, .topk = 70, .junk_share = 0.1}, seed);
  return with_setting(c, setting);
}

// Enough CTAs to fill a GPU twice, so that two such calls on two streams share it.
Case wide_case(const Setting& setting, std::uint64_t seed) {
  const InputOptions options = {.queries = 300, .keys = 3000, .topk = 512};
  return with_setting(unforwarded_case(wide_problem(setting), options, seed), setting);
}

bool repeats_bit_for_bit(const Setting& s) {
  return s.order == OrderRequest::automatic || s.order == OrderRequest::callers;
}

void expect_same(const Setting& setting, const Case& c, const Outputs& got, const Outputs& want) {
  if (repeats_bit_for_bit(setting)) REQUIRE(got.d_q == want.d_q);
  expect_close("d_q", widened(c.problem, got).d_q, widened(c.problem, want).d_q, 1e-3);
  expect_close("d_kv", widened(c.problem, got).d_kv, widened(c.problem, want).d_kv, 1e-5);
}

// A pair of calls on inputs of their own, and what each gives alone.
struct MicroBatches {
  Setting setting;
  Case cases[2];
  GpuCase calls[2];
  Outputs alone[2];

  explicit MicroBatches(const Setting& s)
      : setting(s), cases{wide_case(s, 41), wide_case(s, 42)}, calls{allocate(cases[0]), allocate(cases[1])} {
    for (int i = 0; i < 2; ++i) {
      upload_inputs(calls[i], cases[i].tensors);
      run(*calls[i].plan, calls[i].call);
      synchronize(calls[i].call.stream);
      alone[i] = download(calls[i]);
      REQUIRE(difference(widened(cases[i].problem, alone[i]).d_q, widened(cases[i].problem, alone[i]).d_q)
                  .finite());
      poison_outputs(calls[i]);
    }
    synchronize(cuda::Stream{});
  }
  void expect_as_alone() const {
    for (int i = 0; i < 2; ++i) expect_same(setting, cases[i], download(calls[i]), alone[i]);
  }
};

// Work of a good while before what follows on the stream.
void keep_busy(const DeviceBuffer& load, cuda::Stream stream) {
  const std::size_t half = load.bytes() / 2;
  for (int i = 0; i < 100; ++i) copy_on_device(bytes_of(load) + half, load.data(), half, stream);
}

}  // namespace

TEST_CASE("threads that share a plan run calls on streams of their own", "[gpu]") {
  for (const Setting& setting : prepared_settings()) {
    INFO(describe(setting));
    constexpr int kThreads = 8;
    std::vector<Case> cases;
    std::vector<GpuCase> calls;
    std::vector<Stream> streams(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      cases.push_back(small_case(setting, 50 + static_cast<std::uint64_t>(t)));
      calls.push_back(allocate(cases.back()));
      upload_inputs(calls.back(), cases.back().tensors);
      calls.back().call.stream = streams[static_cast<std::size_t>(t)].handle();
    }
    synchronize(cuda::Stream{});
    std::mutex mutex;
    std::exception_ptr failure;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {  // no context is current here: run() finds the plan's device
        try {
          for (int i = 0; i < 50; ++i) {
            const auto plan = create_plan(cases[t].problem, cases[t].request, 0);
            run(*plan, calls[t].call);
          }
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    for (std::size_t t = 0; t < kThreads; ++t) {
      synchronize(calls[t].call.stream);
      expect_reference([&](const Case&) { return download(calls[t]); }, cases[t]);
    }
  }
}

TEST_CASE("two micro-batches in turn on one stream share a plan and a workspace", "[gpu]") {
  for (const Setting& setting : prepared_settings()) {
    INFO(describe(setting));
    MicroBatches pair(setting);
    const Stream stream;
    pair.calls[1].call.workspace = pair.calls[0].call.workspace;
    for (GpuCase& g : pair.calls) g.call.stream = stream.handle();
    for (int i = 0; i < 10; ++i) {
      for (const GpuCase& g : pair.calls) run(*g.plan, g.call);
    }
    synchronize(stream.handle());
    pair.expect_as_alone();
  }
}

TEST_CASE("two micro-batches on two streams at once give what each gives alone", "[gpu]") {
  for (const Setting& setting : prepared_settings()) {
    INFO(describe(setting));
    MicroBatches pair(setting);
    const Stream streams[2];
    for (int i = 0; i < 2; ++i) pair.calls[i].call.stream = streams[i].handle();
    for (int i = 0; i < 10; ++i) {
      for (const GpuCase& g : pair.calls) run(*g.plan, g.call);
    }
    for (const Stream& stream : streams) synchronize(stream.handle());
    pair.expect_as_alone();
  }
}

TEST_CASE("two captured micro-batches replay in one graph", "[gpu]") {
  for (const Setting& setting : prepared_settings()) {
    INFO(describe(setting));
    MicroBatches pair(setting);
    const Stream stream;
    for (GpuCase& g : pair.calls) g.call.stream = stream.handle();
    begin_capture(stream.handle());
    for (const GpuCase& g : pair.calls) run(*g.plan, g.call);
    const CapturedGraph graph = end_capture(stream.handle());
    for (GpuCase& g : pair.calls) g.plan.reset();  // a graph outlives the plans that it was captured from
    for (int i = 0; i < 3; ++i) graph.launch(stream.handle());
    synchronize(stream.handle());
    pair.expect_as_alone();
  }
}

TEST_CASE("a plan may go while its work is queued", "[gpu]") {
  for (const Setting& setting : prepared_settings()) {
    INFO(describe(setting));
    const Case c = small_case(setting, 60);
    GpuCase g = allocate(c);
    upload_inputs(g, c.tensors);
    const Stream stream;
    g.call.stream = stream.handle();
    const DeviceBuffer load(std::size_t{512} << 20);
    synchronize(cuda::Stream{});
    const Event queued, reached;
    record(queued, stream.handle());
    keep_busy(load, stream.handle());
    record(reached, stream.handle());
    run(*g.plan, g.call);
    g.plan.reset();  // the last holder, while the stream is still copying
    synchronize(stream.handle());
    REQUIRE(milliseconds(queued, reached) > 2);
    expect_reference([&](const Case&) { return download(g); }, c);
  }
}

TEST_CASE("two GPUs in one process run the same problem, whichever is current", "[gpu]") {
  const Gpu& first = require_gpu();
  if (device_count() < 2) SKIP("one GPU");
  const DeviceProperties second = device_properties(1);
  for (const Setting& setting : prepared_settings()) {
    INFO(describe(setting));
    const Case c = small_case(setting, 70), other = small_case(setting, 71);
    GpuCase on_first = allocate(c);
    upload_inputs(on_first, c.tensors);
    const CurrentDevice current(second.handle);
    const Stream stream;  // of the second
    GpuCase on_second = allocate(other, 1);
    upload_inputs(on_second, other.tensors);
    on_second.call.stream = stream.handle();
    REQUIRE(on_first.plan->prepared == on_second.plan->prepared);  // one cubin for both
    synchronize(cuda::Stream{});
    Stream of_first = [&] {
      const CurrentDevice back(first.properties.handle);
      return Stream();
    }();
    on_first.call.stream = of_first.handle();
    for (int i = 0; i < 5; ++i) {
      run(*on_first.plan, on_first.call);  // the second is current
      const CurrentDevice back(first.properties.handle);
      run(*on_second.plan, on_second.call);  // the first is
    }
    REQUIRE(current_device() == 1);
    synchronize(stream.handle());
    expect_reference([&](const Case&) { return download(on_second); }, other);
    const CurrentDevice back(first.properties.handle);
    synchronize(of_first.handle());
    expect_reference([&](const Case&) { return download(on_first); }, c);
  }
}
