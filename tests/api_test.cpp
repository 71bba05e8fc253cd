// The C API of libsmla.so, as a C program sees it: misuse, sizes of structs, errors by thread. The driver is
// tests/fake_libcuda.c.
#include <dlfcn.h>
#include <smla/smla.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <smla/smla.hpp>
#include <string>
#include <thread>

#include "catch.h"
#include "fake_libcuda.h"
#include "temporary_directory.h"

using smla_test::contains;

namespace {

struct Environment {
  smla_test::TemporaryDirectory cache;
  fake_cuda* fake = nullptr;
  Environment() {
    setenv("SMLA_LIBCUDA", SMLA_FAKE_LIBCUDA, 1);
    setenv("SMLA_CACHE_DIR", cache.path().c_str(), 1);
    fake =
        reinterpret_cast<fake_cuda* (*)()>(dlsym(dlopen(SMLA_FAKE_LIBCUDA, RTLD_NOW), "fake_cuda_state"))();
  }
};

fake_cuda& fake() {
  static const Environment environment;
  return *environment.fake;
}

smla_problem problem_of(int heads) {
  smla_problem problem;
  smla_problem_init(&problem);
  problem.heads = heads;
  return problem;
}

smla_plan* create(const smla_problem& problem) {
  fake();
  smla_plan* plan = nullptr;
  const smla_status status = smla_plan_create(&plan, &problem, nullptr, 0, nullptr);
  if (status == SMLA_NO_COMPILER) SKIP("no NVRTC");
  INFO(smla_last_error());
  REQUIRE(status == SMLA_SUCCESS);
  REQUIRE(plan != nullptr);
  return plan;
}

// Of every tensor and of the workspace, far apart.
void set_addresses(smla_call& call) {
  std::uintptr_t next = 0x10000000000;
  for (smla_tensor* t :
       {&call.q, &call.kv, &call.o, &call.d_o, &call.indices, &call.lse, &call.d_q, &call.d_kv}) {
    t->data = reinterpret_cast<void*>(next += 0x1000000000);
  }
  call.workspace = reinterpret_cast<void*>(next += 0x1000000000);
}

}  // namespace

TEST_CASE("the version is the header's and statuses have names") {
  CHECK(std::string(smla_version()) == std::to_string(SMLA_VERSION_MAJOR) + "." +
                                           std::to_string(SMLA_VERSION_MINOR) + "." +
                                           std::to_string(SMLA_VERSION_PATCH));
  CHECK(std::string(smla_status_name(SMLA_NOT_SUPPORTED)) == "not supported");
  CHECK(std::string(smla_status_name(77)) == "unknown status");
}

TEST_CASE("initialisers set sizes and the documented defaults") {
  smla_problem problem;
  std::memset(&problem, 0xff, sizeof problem);
  smla_problem_init(&problem);
  CHECK(problem.struct_size == sizeof problem);
  CHECK(problem.heads == 0);
  CHECK(problem.kv_groups == 1);
  CHECK(problem.d_v == 512);
  CHECK(problem.d_tail == 64);
  CHECK(problem.dtype == SMLA_BF16);
  CHECK(problem.lse_base == SMLA_LSE_BASE_2);
  CHECK(problem.deterministic == 0);
  smla_config config;
  std::memset(&config, 0xff, sizeof config);
  smla_config_init(&config);
  CHECK(config.struct_size == sizeof config);
  CHECK(config.schedule == SMLA_SCHEDULE_AUTO);
  CHECK(config.reserved == 0);
}

TEST_CASE("a call starts with contiguous strides and no scale") {
  const smla_problem problem = problem_of(64);
  smla_call call;
  REQUIRE(smla_call_init(&call, &problem, 2, 100, 300, 17) == SMLA_SUCCESS);
  CHECK(call.struct_size == sizeof call);
  CHECK(call.lengths.batch == 2);
  CHECK(call.lengths.topk == 17);
  CHECK(call.q.strides[0] == 100 * 64 * 576);
  CHECK(call.q.strides[1] == 64 * 576);
  CHECK(call.q.strides[2] == 576);
  CHECK(call.d_kv.strides[0] == 300 * 576);
  CHECK(call.indices.strides[1] == 17);
  CHECK(call.o.strides[2] == 512);
  CHECK(call.lse.strides[2] == 1);
  CHECK(call.q.data == nullptr);
  CHECK(std::isnan(call.scale));
  CHECK(smla_default_scale(&problem) == 1.0F / 24);
}

TEST_CASE("null pointers are refused by name") {
  const smla_problem problem = problem_of(64);
  smla_plan* plan = nullptr;
  std::size_t bytes = 0;
  smla_lengths lengths = {1, 1, 1, 1, SMLA_ORDER_AUTO, {0, 0, 0}};
  CHECK(smla_plan_create(nullptr, &problem, nullptr, 0, nullptr) == SMLA_INVALID_ARGUMENT);
  CHECK_THAT(smla_last_error(), contains("plan is null"));
  CHECK(smla_plan_create(&plan, nullptr, nullptr, 0, nullptr) == SMLA_INVALID_ARGUMENT);
  CHECK_THAT(smla_last_error(), contains("problem is null"));
  CHECK(smla_workspace_size(nullptr, &lengths, &bytes) == SMLA_INVALID_ARGUMENT);
  CHECK(smla_run(nullptr, nullptr) == SMLA_INVALID_ARGUMENT);
  CHECK(smla_call_init(nullptr, &problem, 1, 1, 1, 1) == SMLA_INVALID_ARGUMENT);
  CHECK(smla_prepare(&problem, nullptr, nullptr, nullptr) == SMLA_INVALID_ARGUMENT);
  CHECK_THAT(smla_last_error(), contains("arch is null"));
  CHECK(smla_plan_describe(nullptr) == nullptr);
  CHECK(smla_default_scale(nullptr) == 0);
  smla_problem_init_sized(nullptr, sizeof problem);
  smla_plan_destroy(nullptr);
}

TEST_CASE("a struct that nobody initialised is refused") {
  smla_problem problem = problem_of(64);
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{1} << 40}) {
    problem.struct_size = size;
    CHECK(smla_supported(&problem, nullptr, "sm_90a", nullptr, 0) == SMLA_INVALID_ARGUMENT);
    CHECK_THAT(smla_last_error(),
               contains("problem.struct_size = ") && contains("was not initialised (smla_problem_init)"));
  }
}

TEST_CASE("a struct of an older header has defaults for what it lacks") {
  smla_problem problem = problem_of(64);
  problem.struct_size = offsetof(smla_problem, dtype);
  problem.dtype = 12345;  // beyond the older struct: another variable of the caller
  CHECK(smla_supported(&problem, nullptr, "sm_90a", nullptr, 0) == SMLA_SUCCESS);
}

TEST_CASE("a struct of a newer header is accepted while its unknown fields are zero") {
  struct {
    smla_problem problem;
    std::int64_t later[2];
  } newer = {problem_of(64), {0, 0}};
  newer.problem.struct_size = sizeof newer;
  CHECK(smla_supported(&newer.problem, nullptr, "sm_90a", nullptr, 0) == SMLA_SUCCESS);
  newer.later[1] = 1;
  CHECK(smla_supported(&newer.problem, nullptr, "sm_90a", nullptr, 0) == SMLA_INVALID_ARGUMENT);
  CHECK_THAT(smla_last_error(), contains("is not zero: the program was built for a newer smla"));
  smla_problem_init_sized(&newer.problem, sizeof newer);
  CHECK(newer.problem.struct_size == sizeof newer);
  CHECK(newer.later[1] == 0);
}

TEST_CASE("a call of a header without lists keeps them in the workspace, whatever lies behind it") {
  const smla_problem problem = problem_of(16);
  smla_plan* plan = create(problem);
  constexpr std::size_t kWithoutLists = offsetof(smla_call, lists);
  smla_call call;
  std::memset(&call, 0xff, sizeof call);
  REQUIRE(smla_call_init_sized(&call, kWithoutLists, &problem, 1, 70, 300, 64) == SMLA_SUCCESS);
  CHECK(call.struct_size == kWithoutLists);
  CHECK(call.lists_are_ready == -1);  // another variable of the caller: not written, and not read
  set_addresses(call);
  call.scale = smla_default_scale(&problem);
  REQUIRE(smla_workspace_size(plan, &call.lengths, &call.workspace_bytes) == SMLA_SUCCESS);
  fake().launches = 0;
  CHECK(smla_run(plan, &call) == SMLA_SUCCESS);
  CHECK(fake().launches == 4);
  smla_plan_destroy(plan);
}

TEST_CASE("lists that the caller keeps save a second call the pre-pass") {
  const smla_problem problem = problem_of(16);
  smla_plan* plan = create(problem);
  smla_call call;
  REQUIRE(smla_call_init(&call, &problem, 1, 70, 300, 64) == SMLA_SUCCESS);
  CHECK(call.lists == nullptr);
  CHECK(call.lists_bytes == 0);
  CHECK(call.lists_are_ready == 0);
  set_addresses(call);
  call.scale = smla_default_scale(&problem);
  REQUIRE(smla_workspace_size(plan, &call.lengths, &call.workspace_bytes) == SMLA_SUCCESS);
  REQUIRE(smla_lists_size(plan, &call.lengths, &call.lists_bytes) == SMLA_SUCCESS);
  REQUIRE(call.lists_bytes >= 70 * 64 * 4);
  call.workspace_bytes -= call.lists_bytes;
  const auto refused = [&](const char* words) {
    CHECK(smla_run(plan, &call) == SMLA_INVALID_ARGUMENT);
    CHECK_THAT(smla_last_error(), contains(words));
  };
  fake().launches = 0;
  refused("workspace_bytes");  // without lists they are part of it
  call.lists = reinterpret_cast<void*>(std::uintptr_t{0x7000000000000});
  call.lists_are_ready = 2;
  refused("call.lists_are_ready = 2 is neither 0 nor 1");
  call.lists_are_ready = 0;
  call.reserved2 = 1;
  refused("call.reserved2 = 1");
  call.reserved2 = 0;
  CHECK(fake().launches == 0);
  CHECK(smla_run(plan, &call) == SMLA_SUCCESS);
  CHECK(fake().launches == 4);
  call.lists_are_ready = 1;
  CHECK(smla_run(plan, &call) == SMLA_SUCCESS);
  CHECK(fake().launches == 4 + 3);
  call.lists = nullptr;
  call.workspace_bytes += call.lists_bytes;
  refused("lists_are_ready = 1 and lists is null");
  CHECK(fake().launches == 4 + 3);

  std::size_t bytes = 0;
  CHECK(smla_lists_size(nullptr, &call.lengths, &bytes) == SMLA_INVALID_ARGUMENT);
  CHECK(smla_lists_size(plan, nullptr, &bytes) == SMLA_INVALID_ARGUMENT);
  CHECK(smla_lists_size(plan, &call.lengths, nullptr) == SMLA_INVALID_ARGUMENT);
  call.lengths.topk = -1;
  CHECK(smla_lists_size(plan, &call.lengths, &bytes) == SMLA_INVALID_ARGUMENT);
  CHECK_THAT(smla_last_error(), contains("topk = -1"));
  smla_plan_destroy(plan);
}

TEST_CASE("enums and flags without meaning are refused by name and value") {
  const auto said = [](auto&& change) -> std::string {
    smla_problem problem = problem_of(64);
    change(problem);
    CHECK(smla_supported(&problem, nullptr, "sm_90a", nullptr, 0) == SMLA_INVALID_ARGUMENT);
    return smla_last_error();
  };
  CHECK_THAT(said([](auto& p) { p.dtype = 2; }),
             contains("problem.dtype = 2 is neither 0 (bf16) nor 1 (fp16)"));
  CHECK_THAT(said([](auto& p) { p.causal = -1; }), contains("problem.causal = -1 is neither 0 nor 1"));
  CHECK_THAT(said([](auto& p) { p.lse_base = 10; }), contains("problem.lse_base = 10"));
  CHECK_THAT(said([](auto& p) { p.heads = 0; }), contains("heads = 0"));
  smla_problem problem = problem_of(64);
  smla_config config;
  smla_config_init(&config);
  config.schedule = 9;
  CHECK(smla_supported(&problem, &config, "sm_90a", nullptr, 0) == SMLA_INVALID_ARGUMENT);
  CHECK_THAT(smla_last_error(), contains("config.schedule = 9"));
  smla_config_init(&config);
  config.reserved = 1;
  CHECK(smla_supported(&problem, &config, "sm_90a", nullptr, 0) == SMLA_INVALID_ARGUMENT);
  CHECK_THAT(smla_last_error(), contains("config.reserved = 1"));
}

TEST_CASE("support can be asked for without a GPU, with the reason cut to the caller's buffer") {
  const smla_problem good = problem_of(64), bad = problem_of(65 * 3);
  char why[512];
  CHECK(smla_supported(&good, nullptr, "sm_90a", why, sizeof why) == SMLA_SUCCESS);
  CHECK(std::strlen(why) > 10);
  CHECK(smla_supported(&bad, nullptr, "sm_90a", why, sizeof why) == SMLA_NOT_SUPPORTED);
  CHECK(std::string(why) == smla_last_error());
  CHECK_THAT(why, contains("heads = 195") && contains("nearest that works is 192"));
  char small[8];
  smla_supported(&bad, nullptr, "sm_90a", small, sizeof small);
  CHECK(std::string(small) == std::string(why).substr(0, 7));
}

TEST_CASE("errors belong to the thread that made them, and the next call clears them") {
  CHECK(smla_run(nullptr, nullptr) == SMLA_INVALID_ARGUMENT);
  std::string elsewhere = "unset";
  std::thread([&] { elsewhere = smla_last_error(); }).join();
  CHECK(elsewhere.empty());
  CHECK(std::string(smla_last_error()) != "");
  const smla_problem problem = problem_of(64);
  CHECK(smla_supported(&problem, nullptr, "sm_90a", nullptr, 0) == SMLA_SUCCESS);
  CHECK(std::string(smla_last_error()).empty());
}

TEST_CASE("warnings go to the callback with the caller's pointer") {
  std::string heard;
  smla_set_log(
      [](void* user, smla_log_level level, const char* message) {
        *static_cast<std::string*>(user) += std::to_string(level) + message;
      },
      &heard);
  setenv("SMLA_RECORD", "/nowhere/record.json", 1);
  const smla_problem problem = problem_of(3);
  const smla_status status = smla_prepare(&problem, nullptr, "sm_80", nullptr);
  unsetenv("SMLA_RECORD");
  smla_set_log(nullptr, nullptr);
  if (status == SMLA_NO_COMPILER) SKIP("no NVRTC");
  REQUIRE(status == SMLA_SUCCESS);
  CHECK_THAT(heard, contains("2smla: SMLA_RECORD=/nowhere/record.json"));
}

TEST_CASE("preparing says whether it compiled") {
  fake();
  const smla_problem problem = problem_of(5);
  int built = -1;
  const smla_status status = smla_prepare(&problem, nullptr, "sm_80", &built);
  if (status == SMLA_NO_COMPILER) SKIP("no NVRTC");
  REQUIRE(status == SMLA_SUCCESS);
  CHECK(built == 1);
  CHECK(smla_prepare(&problem, nullptr, "sm_80", &built) == SMLA_SUCCESS);
  CHECK(built == 0);
}

TEST_CASE("a plan runs a call, and refuses a bad one without a launch") {
  const smla_problem problem = problem_of(16);
  smla_plan* plan = create(problem);
  smla_call call;
  REQUIRE(smla_call_init(&call, &problem, 1, 70, 300, 64) == SMLA_SUCCESS);
  fake().launches = 0;
  CHECK(smla_run(plan, &call) == SMLA_INVALID_ARGUMENT);
  CHECK_THAT(smla_last_error(), contains("q is null"));
  set_addresses(call);
  REQUIRE(smla_workspace_size(plan, &call.lengths, &call.workspace_bytes) == SMLA_SUCCESS);
  CHECK(smla_run(plan, &call) == SMLA_INVALID_ARGUMENT);
  CHECK_THAT(smla_last_error(), contains("scale = nan is not finite"));
  call.scale = smla_default_scale(&problem);
  CHECK(fake().launches == 0);
  CHECK(smla_run(plan, &call) == SMLA_SUCCESS);
  CHECK(fake().launches == 4);  // with the list that 4 tokens share
  call.lengths.order = 9;
  CHECK(smla_run(plan, &call) == SMLA_INVALID_ARGUMENT);
  CHECK_THAT(smla_last_error(), contains("order = 9"));
  CHECK_THAT(smla_plan_describe(plan), contains("\"heads\": 16"));
  smla_plan_destroy(plan);
}

TEST_CASE("the C++ API runs the same call, and its errors carry status and sentence") {
  const smla::Problem problem = {.heads = 16};
  smla_plan_destroy(create(problem_of(16)));
  const smla::Plan plan(problem);
  smla::Call call = smla::contiguous_call(problem, {.batch = 1, .queries = 70, .keys = 300, .topk = 64});
  CHECK(call.q.strides == smla::Strides{70 * 16 * 576, 16 * 576, 576});
  std::uintptr_t next = 0x10000000000;
  for (smla::Input* t : {&call.q, &call.kv, &call.o, &call.d_o, &call.indices, &call.lse}) {
    t->data = reinterpret_cast<void*>(next += 0x1000000000);
  }
  for (smla::Output* t : {&call.d_q, &call.d_kv}) t->data = reinterpret_cast<void*>(next += 0x1000000000);
  call.workspace = reinterpret_cast<void*>(next += 0x1000000000);
  call.workspace_bytes = plan.workspace_size(call.lengths);
  try {
    plan.run(call);
    FAIL("a call without a scale ran");
  } catch (const smla::Error& error) {
    CHECK(error.status() == smla::Status::invalid_argument);
    CHECK_THAT(error.what(), contains("scale"));
  }
  call.scale = smla::default_scale(problem);
  fake().launches = 0;
  plan.run(call);
  CHECK(fake().launches == 4);  // with the list that 4 tokens share
  call.lists_bytes = plan.lists_size(call.lengths);
  call.lists = reinterpret_cast<void*>(next += 0x1000000000);
  plan.run(call);
  CHECK(fake().launches == 4 + 4);
  call.lists_are_ready = true;
  plan.run(call);
  CHECK(fake().launches == 4 + 4 + 3);
  CHECK_THAT(plan.describe(), contains("wgmma"));
  CHECK(smla::supported(problem, "sm_86"));
  CHECK_THAT(smla::supported({.heads = 300}, "sm_86").why, contains("heads = 300"));
  CHECK_THROWS_AS(smla::Plan({.heads = 300}), smla::Error);
  CHECK_THROWS_AS(smla::default_scale({.heads = 0}), smla::Error);
}
