// What a plan does to the driver: loading, launching, capturing, contexts, threads. The driver is
// tests/fake_libcuda.c, which records and runs nothing; the kernels are compiled by the real NVRTC.
#include "plan/plan.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "compiler/compiler.h"
#include "driver/driver.h"
#include "fake_libcuda.h"
#include "generator/generator.h"
#include "plan/arguments.h"
#include "temporary_directory.h"

using namespace smla::core;
using smla_test::contains;

#ifndef SMLA_SANITIZED  // sanitizers bring their own new and delete
namespace {

std::atomic<long> allocations = 0;

}  // namespace

// Counts what the library takes from the heap; std::string, std::vector and fmt all come here.
// Not inlined: GCC 12 takes malloc and free for a mismatch with new and delete where it sees through one of
// them alone.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace {

const Problem kSmall = {.heads = 16};
const ConfigRequest kCpAsync = {.schedule = Schedule::cp_async};  // three launches a call
const Problem kLarge = {.heads = 64, .has_sink = true};           // wgmma

// The environment before anything opens the driver or the cache.
struct Environment {
  smla_test::TemporaryDirectory cache;
  fake_cuda* fake = nullptr;
  void (*push_other_context)(unsigned long long id) = nullptr;
  void (*pop_context)() = nullptr;

  Environment() {
    setenv("SMLA_LIBCUDA", SMLA_FAKE_LIBCUDA, 1);
    setenv("SMLA_CACHE_DIR", cache.path().c_str(), 1);
    void* library = dlopen(SMLA_FAKE_LIBCUDA, RTLD_NOW);
    auto* state = reinterpret_cast<fake_cuda* (*)()>(dlsym(library, "fake_cuda_state"));
    fake = state();
    push_other_context =
        reinterpret_cast<void (*)(unsigned long long)>(dlsym(library, "fake_push_other_context"));
    pop_context = reinterpret_cast<void (*)()>(dlsym(library, "fake_pop_context"));
    fake->argument_bytes = sizeof(Arguments);
  }
};

const Environment& environment() {
  static const Environment only;
  return only;
}

fake_cuda& fake() {
  return *environment().fake;
}

std::shared_ptr<const Plan> plan_of(const Problem& problem, int device = 0) {
  fake();
  try {
    compiler_version();
  } catch (const Error&) {
    SKIP("no NVRTC");
  }
  return create_plan(problem, problem == kSmall ? kCpAsync : ConfigRequest{}, device);
}

void* at(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

Call call_of(const Plan& plan, const Lengths& lengths, OrderRequest order = OrderRequest::automatic) {
  Call c;
  c.lengths = lengths;
  c.order = order;
  set_contiguous_strides(c, plan.problem);
  std::uintptr_t next = 0x10000000000;
  for (Tensor* t : {&c.q, &c.kv, &c.o, &c.d_o, &c.indices, &c.lse, &c.d_q, &c.d_kv})
    t->data = at(next += 0x1000000000);
  if (plan.problem.has_sink) {
    c.attn_sink = at(next += 0x1000000000);
    c.d_sink = at(next += 0x1000000000);
  }
  c.scale = default_scale(plan.problem);
  c.workspace = at(next += 0x1000000000);
  c.workspace_bytes = static_cast<std::size_t>(workspace_size(plan, lengths, order));
  c.stream = static_cast<cuda::Stream>(at(0x5000));
  return c;
}

std::vector<fake_launch> launches_of(const Plan& plan, const Call& call) {
  fake().launches = 0;
  run(plan, call);
  return {fake().launch, fake().launch + fake().launches};
}

Arguments arguments(const fake_launch& launch) {
  Arguments a;
  std::memcpy(&a, launch.argument, sizeof a);
  return a;
}

template <class Body>
std::string refusal(Body&& body, Status status) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.status() == status);
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("C40: a cold plan under capture is an error that loads nothing, and the capture is untouched") {
  const auto stream = static_cast<cuda::Stream>(at(0x5000));
  fake().capturing = 1;
  const int loads = fake().loads;
  const std::string said = refusal([&] { create_plan(kSmall, kCpAsync, 0, stream); }, Status::capturing);
  fake().capturing = 0;
  CHECK_THAT(said, contains("h16-d512t64-bf16 for sm_90a would have to be compiled or loaded while the "
                            "stream is being captured"));
  CHECK(fake().loads == loads);
}

TEST_CASE("C40: once a plan exists, calls and further plans of it work under capture") {
  const auto plan = plan_of(kSmall);
  const Call call = call_of(*plan, {1, 70, 300, 64});
  fake().capturing = 1;
  const auto again = create_plan(kSmall, kCpAsync, 0, call.stream);
  const auto launches = launches_of(*again, call);
  fake().capturing = 0;
  CHECK(launches.size() == 3);
  CHECK(again->prepared == plan->prepared);
}

TEST_CASE(
    "partial sums are followed by the fp32 call that stands in for them, behind them in the workspace") {
  const Problem problem = {.heads = 64, .accumulate = Accumulate::partial};
  const auto plan = plan_of(problem);
  REQUIRE(plan->fallback);
  CHECK(plan->fallback->problem == Problem{.heads = 64});
  const Lengths lengths = {1, 700, 4096, 2048};
  Call call = call_of(*plan, lengths);
  const std::int64_t own = workspace_size(*plan, lengths) - workspace_size(*plan->fallback, lengths);
  CHECK(own % 256 == 0);
  CHECK_THAT(describe(*plan), contains("\"fallback\": \"h64-d512t64-bf16-wgmma"));
  const auto launches = launches_of(*plan, call);
  REQUIRE(launches.size() == 7);
  const char* roles[] = {"preprocess", "group_scales", "backward",   "postprocess",
                         "preprocess", "backward",     "postprocess"};
  const Arguments first = arguments(launches[0]);
  CHECK(first.partial_report == nullptr);
  CHECK(first.group_tokens == 128);
  CHECK(first.token_groups == 6);
  for (std::size_t i = 0; i < 7; ++i) {
    INFO("launch " << i);
    CHECK_THAT(std::string(launches[i].kernel), contains(std::string("smla_") + roles[i] + "_h64"));
    CHECK((std::string(launches[i].kernel).find("partial") != std::string::npos) == (i < 4));
    CHECK(launches[i].stream == call.stream);
    if (i < 4) continue;
    const Arguments again = arguments(launches[i]);
    CHECK(again.partial_report == first.counters);
    CHECK(again.d_q == call.d_q.data);
    CHECK(reinterpret_cast<char*>(again.row_lse) == static_cast<char*>(call.workspace) + own);
    CHECK(reinterpret_cast<char*>(again.counters) + 64 <=
          static_cast<char*>(call.workspace) + call.workspace_bytes);
  }

  --call.workspace_bytes;
  fake().launches = 0;
  CHECK_THAT(refusal([&] { run(*plan, call); }, Status::invalid_argument), contains("workspace_bytes"));
  call = call_of(*plan, lengths);
  call.lengths.keys = 16385;
  CHECK_THAT(refusal([&] { run(*plan, call); }, Status::not_supported), contains("keys = 16385"));
  CHECK(fake().launches == 0);
}

TEST_CASE("partial sums of 128 heads fall back on wgmma, in whose blocks they are, and not on the pair") {
  const auto partial = plan_of({.heads = 128, .accumulate = Accumulate::partial});
  REQUIRE(partial->fallback);
  CHECK(partial->choice.config.schedule == Schedule::wgmma);
  CHECK(partial->fallback->choice.config == partial->choice.config);
}

TEST_CASE("a pair of CTAs is launched a token, and its order is chosen as that of one CTA is") {
  const auto plan = plan_of({.heads = 128});
  REQUIRE(plan->choice.config.schedule == Schedule::wgmma_pair);
  const auto launches = launches_of(*plan, call_of(*plan, {1, 70, 300, 64}));
  REQUIRE(launches.size() == 3);
  CHECK_THAT(std::string(launches[1].kernel), contains("smla_backward_h128_d512t64_bf16_wgmma_pair"));
  CHECK(launches[1].grid == 140);
  CHECK(launches[1].threads == 384);
  CHECK_THAT(describe(*plan), contains("\"schedule\": \"wgmma_pair\"") &&
                                  contains("two CTAs a cluster: 2 blocks of 64 heads a kv group"));
  const auto throttled = launches_of(*plan, call_of(*plan, {1, 70, 65536, 2048}));
  REQUIRE(throttled.size() == 4);
  CHECK(arguments(throttled[2]).throttle == 132);
}

TEST_CASE("a call launches preprocess, backward and postprocess on the caller's stream") {
  const auto plan = plan_of(kSmall);
  CHECK(plan->choice.config.schedule == Schedule::cp_async);
  const Call call = call_of(*plan, {2, 70, 300, 64});
  const auto launches = launches_of(*plan, call);
  REQUIRE(launches.size() == 3);
  const KernelSource source = generate(kSmall, plan->choice.config);
  const KernelRole roles[] = {KernelRole::preprocess, KernelRole::backward, KernelRole::postprocess};
  for (std::size_t i = 0; i < 3; ++i) {
    const KernelFacts& facts = kernel(source, roles[i]);
    CHECK(std::string(launches[i].kernel) == facts.name);
    CHECK(launches[i].threads == static_cast<unsigned>(facts.threads));
    CHECK(launches[i].shared_bytes == static_cast<unsigned>(facts.shared_bytes));
    CHECK(launches[i].stream == call.stream);
    const Arguments a = arguments(launches[i]);
    CHECK(a.q == call.q.data);
    CHECK(a.batch == 2);
    CHECK(a.queries == 70);
    CHECK(a.sorted == 0);
    CHECK(a.ctas_in_flight == 132);
  }
  CHECK(launches[1].grid == 140);
}

TEST_CASE(
    "a long context is sorted first, and from 65536 rows on swept with a throttle of the CTAs in flight") {
  const auto plan = plan_of(kLarge);
  REQUIRE(plan->choice.config.schedule == Schedule::wgmma);
  const auto sorted = launches_of(*plan, call_of(*plan, {1, 70, 32768, 2048}));
  REQUIRE(sorted.size() == 4);
  CHECK_THAT(std::string(sorted[1].kernel), contains("sort_lists"));
  CHECK(sorted[1].grid == 70);
  CHECK(sorted[1].shared_bytes == static_cast<unsigned>(sort_shared_bytes(32768, plan->choice.config)));
  CHECK(arguments(sorted[2]).sorted == 1);
  CHECK(arguments(sorted[2]).prefetch == 0);
  CHECK(arguments(sorted[2]).throttle == 0);
  const Arguments throttled = arguments(launches_of(*plan, call_of(*plan, {1, 70, 65536, 2048}))[2]);
  CHECK(throttled.sorted == 1);
  CHECK(throttled.prefetch == 1);
  CHECK(throttled.throttle == 132);
  CHECK(launches_of(*plan, call_of(*plan, {1, 70, 65536, 2048}, OrderRequest::callers)).size() == 3);
  CHECK(launches_of(*plan, call_of(*plan, {1, 70, 1024, 64}, OrderRequest::sorted)).size() == 4);
}

TEST_CASE("lists that the caller keeps are written by one call and read by the next without a pre-pass") {
  const Lengths lengths = {1, 70, 32768, 2048};
  for (const Problem& problem : {kLarge, Problem{.heads = 16, .deterministic = true}}) {
    const auto plan = plan_of(problem);
    const bool fixed = problem.deterministic;
    Call call = call_of(*plan, lengths);
    const std::int64_t bytes = lists_size(*plan, lengths);
    REQUIRE(bytes >= std::int64_t{70} * 2048 * 4);
    call.lists = at(0x7000000000000);
    call.lists_bytes = static_cast<std::size_t>(bytes);
    call.workspace_bytes -= call.lists_bytes;
    const auto in_lists = [&](const int* pointer) {
      const auto* begin = static_cast<const char*>(call.lists);
      return reinterpret_cast<const char*>(pointer) >= begin &&
             reinterpret_cast<const char*>(pointer) < begin + bytes;
    };
    for (const bool ready : {false, true}) {
      call.lists_are_ready = ready;
      const auto launches = launches_of(*plan, call);
      REQUIRE(launches.size() == 4U + fixed - ready);
      CHECK_THAT(std::string(launches[1U + fixed].kernel), contains(ready ? "backward" : "sort_lists"));
      for (const fake_launch& launch : launches) {
        const Arguments a = arguments(launch);
        CHECK(a.sorted == 1);
        CHECK(in_lists(a.block_length));
        CHECK(in_lists(a.sorted_lists));
        CHECK(reinterpret_cast<char*>(a.counters) + 64 <=
              static_cast<char*>(call.workspace) + call.workspace_bytes);
      }
    }
  }
}

TEST_CASE("memory for lists is not looked at where a plan sorts none") {
  const auto plan = plan_of(kLarge);
  const Lengths lengths = {1, 70, 4096, 2048};
  CHECK(lists_size(*plan, lengths) == 0);
  CHECK(lists_size(*plan, lengths, OrderRequest::sorted) > 0);
  CHECK(lists_size(*plan_of(kSmall), {1, 70, 300, 64}) == 0);  // cp_async
  Call call = call_of(*plan, lengths);
  call.lists_are_ready = true;
  for (void* lists : {at(0), at(4)}) {
    call.lists = lists;
    const auto launches = launches_of(*plan, call);
    REQUIRE(launches.size() == 3);
    CHECK(arguments(launches[1]).sorted_lists == nullptr);
    CHECK(arguments(launches[1]).block_length == arguments(launches[1]).list_length);
  }
}

TEST_CASE("the fallback of partial sums reads the lists of the call that it stands in for") {
  const auto plan = plan_of({.heads = 16, .accumulate = Accumulate::partial});
  const Lengths lengths = {1, 70, 4096, 512};
  const std::int64_t bytes = lists_size(*plan, lengths);
  REQUIRE(bytes > 0);
  Call call = call_of(*plan, lengths);
  for (const bool kept : {false, true}) {
    for (const bool ready : {false, true}) {
      if (ready && !kept) continue;
      INFO("kept " << kept << ", ready " << ready);
      call = call_of(*plan, lengths);
      call.lists = kept ? at(0x7000000000000) : nullptr;
      call.lists_bytes = static_cast<std::size_t>(kept ? bytes : 0);
      call.lists_are_ready = ready;
      call.workspace_bytes -= call.lists_bytes;
      const auto launches = launches_of(*plan, call);
      REQUIRE(launches.size() == (ready ? 7 : 8));  // of which 3 are the fallback's: it has no pre-pass
      const Arguments own = arguments(launches[0]), fallbacks = arguments(launches.back());
      CHECK(fallbacks.partial_report == own.counters);
      CHECK(fallbacks.block_length == own.block_length);
      CHECK(fallbacks.sorted_lists == own.sorted_lists);
      CHECK((own.block_length == call.lists) == kept);
      CHECK(own.row_lse == call.workspace);
      CHECK(fallbacks.row_lse >= reinterpret_cast<float*>(own.counters + 16));
      CHECK(reinterpret_cast<char*>(fallbacks.counters) + 64 ==
            static_cast<char*>(call.workspace) + call.workspace_bytes);
    }
  }
  --call.workspace_bytes;
  CHECK_THAT(refusal([&] { run(*plan, call); }, Status::invalid_argument), contains("workspace_bytes"));
}

TEST_CASE("a fallback that alone sorts does so itself, in its own workspace") {
  const auto plan = plan_of({.heads = 64, .accumulate = Accumulate::partial});
  const Lengths lengths = {1, 70, 16384, 512};  // fp16 sums stay in L2, fp32 sums do not
  CHECK(lists_size(*plan, lengths) == 0);
  Call call = call_of(*plan, lengths);
  call.lists = at(0x7000000000000);
  call.lists_are_ready = true;
  const auto launches = launches_of(*plan, call);
  REQUIRE(launches.size() == 8);
  CHECK_THAT(std::string(launches[5].kernel), contains("sort_lists"));
  const Arguments a = arguments(launches[5]);
  CHECK(static_cast<void*>(a.block_length) > call.workspace);
  CHECK(static_cast<void*>(a.sorted_lists) < static_cast<char*>(call.workspace) + call.workspace_bytes);
}

TEST_CASE("the lists of the last wave's tokens are shared, with room for their d_q in the workspace") {
  const auto plan = plan_of(kLarge);
  const Lengths lengths = {1, 4096, 4096, 2048};
  const Call call = call_of(*plan, lengths);
  const auto launches = launches_of(*plan, call);
  REQUIRE(launches.size() == 3);
  CHECK(launches[1].grid == 4092 + 4 * 32);
  for (const fake_launch& launch : launches) {
    const Arguments a = arguments(launch);
    CHECK(a.whole_ctas == 4092);
    CHECK(a.split_blocks == 4);
    CHECK(a.shares == 32);
    const auto* shares = reinterpret_cast<const char*>(a.d_q_shares);
    CHECK(shares > static_cast<const char*>(call.workspace));
    CHECK(shares + std::ptrdiff_t{4} * 32 * 64 * 576 * 4 <= static_cast<const char*>(a.d_kv_sum));
  }
  const std::int64_t a_token = 64 * 4 * 2 + 4;  // row_lse, row_delta, list_length
  CHECK(workspace_size(*plan, lengths) - workspace_size(*plan, {1, 4092, 4096, 2048}) ==
        4 * 32 * 64 * 576 * 4 + (4096 - 4092) * a_token / 256 * 256);
}

TEST_CASE("C54: 50 different lengths load nothing more") {
  const auto plan = plan_of(kLarge);
  const int loads = fake().loads;
  for (int i = 1; i <= 50; ++i) {
    const auto again = create_plan(kLarge, {}, 0);
    CHECK(launches_of(*again, call_of(*again, {1 + i % 3, i, 700 * i, 17 * i})).size() >= 3);
  }
  CHECK(fake().loads == loads);
}

TEST_CASE("one library serves all devices, and is never unloaded") {
  { const auto plan = plan_of(kSmall, 0); }
  const int loads = fake().loads;
  const auto other = plan_of(kSmall, 1);
  CHECK(fake().loads == loads);
  CHECK(fake().unloads == 0);
  const auto launches = launches_of(*other, call_of(*other, {1, 70, 300, 64}));
  REQUIRE(launches.size() == 3);
  for (const fake_launch& launch : launches) CHECK(launch.device == 1);
}

TEST_CASE("creating a plan makes every kernel ready, so that a call loads nothing lazily") {
  fake().functions_loaded = fake().attributes_set = 0;
  const Problem fresh = {.heads = 8, .causal = true};
  plan_of(fresh);
  CHECK(fake().functions_loaded >= 3);
  CHECK(fake().attributes_set == fake().functions_loaded);
  plan_of(kLarge);
  CHECK(fake().largest_dynamic > 200 * 1024);
}

TEST_CASE(
    "the thread's context is used when it is of the plan's device, else the primary one is pushed and "
    "popped") {
  const auto plan = plan_of(kSmall, 0);
  const Call call = call_of(*plan, {1, 70, 300, 64});
  const auto pushes = [&] {
    const int before = fake().pushes, popped = fake().pops;
    run(*plan, call);
    CHECK(fake().pops - popped == fake().pushes - before);
    return fake().pushes - before;
  };
  CHECK(pushes() == 1);  // nothing is current on this thread
  {
    const CurrentDevice same(0);
    CHECK(pushes() == 0);
  }
  {
    const CurrentDevice other(1);
    CHECK(pushes() == 1);
    CHECK(current_device() == 1);
  }
}

TEST_CASE("a call asks the driver one thing beside its launches where its context is current") {
  const auto plan = plan_of(kLarge);
  const Call call = call_of(*plan, {1, 70, 32768, 2048});
  const auto calls = [&] {
    const int before = fake().calls;
    CHECK(launches_of(*plan, call).size() == 4);
    return fake().calls - before;
  };
  {
    const CurrentDevice current(0);
    CHECK(calls() == 1 + 4);
  }
  CHECK(calls() == 5 + 4);  // nothing is current: asked twice, pushed, asked again, popped
}

TEST_CASE("a plan launches functions of the current context, looked up once a context") {
  const auto plan = plan_of(kSmall);
  const Call call = call_of(*plan, {1, 70, 300, 64});
  const auto contexts = [&](const Call& c) {
    std::vector<unsigned long long> found;
    for (const fake_launch& launch : launches_of(*plan, c)) {
      CHECK(launch.is_function == 1);
      found.push_back(launch.context);
    }
    return found;
  };
  using Ids = std::vector<unsigned long long>;
  CHECK(contexts(call) == Ids{1, 1, 1});
  environment().push_other_context(3);
  CHECK(contexts(call) == Ids{3, 3, 3});
  const int before = fake().calls;
  CHECK(contexts(call) == Ids{3, 3, 3});
  CHECK(fake().calls == before + 1 + 3);
  environment().pop_context();
  CHECK(contexts(call) == Ids{1, 1, 1});
  environment().push_other_context(4);  // destroyed, and another one made at its address
  CHECK(contexts(call) == Ids{4, 4, 4});
  environment().pop_context();
}

TEST_CASE("a stream of another context than the current one gets the kernels themselves") {
  const auto plan = plan_of(kSmall);
  Call call = call_of(*plan, {1, 70, 300, 64});
  call.stream = static_cast<cuda::Stream>(FAKE_OTHER_STREAM);
  environment().push_other_context(3);
  environment().pop_context();
  const CurrentDevice current(0);
  const auto launches = launches_of(*plan, call);
  REQUIRE(launches.size() == 3);
  for (const fake_launch& launch : launches) {
    CHECK(launch.context == 3);
    CHECK(launch.is_function == 0);
  }
}

TEST_CASE("contexts beyond those that a plan remembers get the kernels themselves") {
  const auto plan = plan_of({.heads = 1});
  const Call call = call_of(*plan, {1, 70, 300, 64});
  const std::size_t launches = launches_of(*plan, call).size();
  std::size_t functions = 0;
  for (unsigned long long id = 100; id < 200; ++id) {
    environment().push_other_context(id);
    for (const fake_launch& launch : launches_of(*plan, call)) functions += launch.is_function == 1;
    environment().pop_context();
  }
  CHECK(functions == launches * (FunctionTable::kContexts - 1));  // one is that of its creation
}

TEST_CASE("C32: a call allocates nothing on the host or the device and waits for nothing") {
  const auto plan = plan_of(kLarge);
  const Call call = call_of(*plan, {1, 70, 32768, 2048});
  run(*plan, call);
#ifndef SMLA_SANITIZED
  const long before = allocations;
#endif
  const int on_device = fake().allocations, waits = fake().waits;
  for (int i = 0; i < 100; ++i) run(*plan, call);
#ifndef SMLA_SANITIZED
  CHECK(allocations == before);
#endif
  CHECK(fake().allocations == on_device);
  CHECK(fake().waits == waits);
}

TEST_CASE("a call costs less than 10 us of host time beside the driver's") {
  const auto plan = plan_of(kLarge);
  const Call call = call_of(*plan, {1, 70, 32768, 2048});
  double least = 1e9;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) run(*plan, call);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count() / 100);
  }
  CHECK(least < 10);
}

TEST_CASE("nothing is launched after a refusal") {
  const auto plan = plan_of(kSmall);
  fake().launches = 0;
  const auto said = [&](auto&& change, Status status = Status::invalid_argument) {
    Call call = call_of(*plan, {1, 70, 300, 64});
    change(call);
    return refusal([&] { run(*plan, call); }, status);
  };
  CHECK_THAT(said([](Call& c) { c.q.data = nullptr; }), contains("q is null"));
  CHECK_THAT(said([](Call& c) { c.lengths.keys = -1; }), contains("keys = -1"));
  CHECK_THAT(said([](Call& c) { --c.workspace_bytes; }), contains("workspace_bytes"));
  CHECK_THAT(said([](Call& c) { c.workspace = nullptr; }), contains("workspace is null"));
  CHECK_THAT(said([](Call& c) { c.scale = Call().scale; }), contains("scale"));
  CHECK_THAT(said([](Call& c) { c.order = OrderRequest::sorted; }, Status::not_supported),
             contains("order = 2"));
  CHECK_THAT(said([](Call& c) { c.d_sink = c.q.data; }), contains("d_sink"));
  const auto shared = plan_of({.heads = 8});  // whose tokens share lists
  Call ready = call_of(*shared, {1, 70, 300, 64});
  ready.lists_are_ready = true;
  CHECK_THAT(refusal([&] { run(*shared, ready); }, Status::invalid_argument), contains("lists is null"));
  CHECK(fake().launches == 0);
}

TEST_CASE("C18: no query tokens launch two kernels, no batch entries none") {
  const auto plan = plan_of(kSmall);
  CHECK(launches_of(*plan, call_of(*plan, {1, 0, 300, 64})).size() == 2);
  Call nothing = call_of(*plan, {0, 70, 300, 64});
  nothing.workspace = nullptr;
  CHECK(launches_of(*plan, nothing).empty());
}

TEST_CASE("a launch that the driver refuses is an error that names the kernel") {
  const auto plan = plan_of(kSmall);
  const Call call = call_of(*plan, {1, 70, 300, 64});
  fake().launches = 0;
  fake().failing_launch = 2;
  const std::string said = refusal([&] { run(*plan, call); }, Status::cuda_error);
  fake().failing_launch = 0;
  CHECK_THAT(said, contains("cuLaunchKernel(backward): CUDA_ERROR_INVALID_VALUE (1), invalid argument"));
  CHECK(fake().launches == 2);
}

TEST_CASE("a failed load leaves the plan creatable") {
  plan_of(kSmall);
  const Problem fresh = {.heads = 4};
  fake().failing_load = 1;
  const std::string said = refusal([&] { create_plan(fresh, {}, 0); }, Status::cuda_error);
  fake().failing_load = 0;
  CHECK_THAT(said,
             contains("cuLibraryLoadData(h4-d512t64-bf16") && contains("CUDA_ERROR_NO_BINARY_FOR_GPU (209)"));
  const auto plan = create_plan(fresh, {}, 0);
  CHECK(launches_of(*plan, call_of(*plan, {1, 70, 300, 64})).size() == 4);
}

TEST_CASE("a GPU that is too old, or not there, is refused") {
  fake().compute_major = 7;
  fake().compute_minor = 5;
  const std::string said = refusal([&] { create_plan(kSmall, kCpAsync, 0); }, Status::not_supported);
  fake().compute_major = 9;
  fake().compute_minor = 0;
  CHECK_THAT(said, contains("7.5 is not supported"));
  CHECK_THAT(refusal([&] { create_plan(kSmall, kCpAsync, 5); }, Status::invalid_argument),
             contains("device = 5"));
}

TEST_CASE("CTAs in flight are those of the device") {
  const Problem fresh = {.heads = 2};
  fake().multiprocessors = 78;
  fake().ctas_per_multiprocessor = 2;
  const auto plan = plan_of(fresh);
  fake().multiprocessors = 132;
  fake().ctas_per_multiprocessor = 1;
  CHECK(plan->facts.ctas_in_flight == 156);
  CHECK(arguments(launches_of(*plan, call_of(*plan, {1, 70, 300, 64}))[1]).ctas_in_flight == 156);
}

TEST_CASE("threads create and run plans at once") {
  const auto plan = plan_of(kSmall);
  const Call call = call_of(*plan, {1, 70, 300, 64});
  fake().launches = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) run(*create_plan(kSmall, kCpAsync, 0), call);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(fake().launches == 4 * 100 * 3);
}

TEST_CASE("threads with a context each find its functions in one plan at once") {
  constexpr int kThreads = 8;
  const auto plan = plan_of({.heads = 3});
  const Call call = call_of(*plan, {1, 70, 300, 64});
  const int launches = static_cast<int>(launches_of(*plan, call).size());
  fake().launches = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      environment().push_other_context(1000 + static_cast<unsigned long long>(t));
      for (int i = 0; i < 20; ++i) run(*plan, call);
      environment().pop_context();
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(fake().launches == kThreads * 20 * launches);
  for (const fake_launch& launch : fake().launch) {  // the first of them
    CHECK(launch.is_function == 1);
    CHECK(launch.context >= 1000);
    CHECK(launch.context < 1000 + kThreads);
  }
}

TEST_CASE("a plan of pairs says that they share the last wave's lists") {
  const auto plan = plan_of({.heads = 128});
  const auto json = nlohmann::json::parse(describe(*plan));
  CHECK(json["config"]["schedule"] == "wgmma_pair");
  CHECK_THAT(json["last_wave"].get<std::string>(), contains("shared by the CTAs that would be idle"));
  CHECK_THAT(json["order"].get<std::string>(), contains("12288"));
}

TEST_CASE("a plan describes itself as JSON") {
  const auto plan = plan_of(kLarge);
  const auto json = nlohmann::json::parse(describe(*plan));
  CHECK(json["problem"]["heads"] == 64);
  CHECK(json["problem"]["has_sink"] == true);
  CHECK(json["config"]["schedule"] == "wgmma");
  CHECK(json["arch"] == "sm_90a");
  CHECK(json["device"]["name"] == "Fake H200");
  CHECK(json["why"].size() >= 1);
  REQUIRE(json["kernels"].size() == 4);
  for (const auto& kernel : json["kernels"]) {
    CHECK(kernel["registers"] > 0);
    CHECK(kernel["threads"] > 0);
  }
  CHECK(json["kernels"][2]["shared_bytes"] > 200 * 1024);
  CHECK_THAT(json["key"].get<std::string>(), contains("sparse-mla-bwd-h64"));
  CHECK_THAT(json["order"].get<std::string>(), contains("12288"));
  CHECK_THAT(json["last_wave"].get<std::string>(), contains("shared by the CTAs that would be idle"));
}
