// The file of SMLA_TUNING: what it says, what is wrong with it, and what a plan makes of it. The driver is
// tests/fake_libcuda.c.
#include "plan/tuning.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "catch.h"
#include "compiler/compiler.h"
#include "plan/plan.h"
#include "temporary_directory.h"

using namespace smla::core;
using smla_test::contains;

namespace {

constexpr DeviceFacts kH200 = {.multiprocessors = 132, .ctas_in_flight = 132, .sort_shared_limit = 231424};
const Problem kProblem = {.heads = 16};
const ConfigRequest kTwoTokens = {.schedule = Schedule::wgmma, .block_h = 32};
const ConfigRequest kFourTokens = {.schedule = Schedule::wgmma, .block_h = 16};

TunedEntry entry(std::int64_t keys, const ConfigRequest& config, OrderRequest order) {
  return {"NVIDIA H200", kProblem, {1, 4096, keys, 2048}, config, order, 2.5, 3.25};
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.status() == Status::invalid_argument);
    return error.what();
  }
  return "nothing was thrown";
}

std::string parse_error(const std::string& text) {
  return message_of([&] { (void)parse_tuning(text, "t.json"); });
}

// The text of one good entry, with a part of it replaced.
std::string text_with(const std::string& part, const std::string& by) {
  std::string text = tuning_text({entry(4096, kTwoTokens, OrderRequest::sorted)});
  const auto at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), by);
}

bool compiler_found() {
  try {
    compiler_version();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("a tuning file is read as it was written") {
  const Tuning tuning = {entry(4096, kTwoTokens, OrderRequest::sorted),
                         entry(65536, {}, OrderRequest::automatic)};
  CHECK(parse_tuning(tuning_text(tuning), "t.json") == tuning);
  CHECK(parse_tuning(tuning_text({}), "t.json").empty());
}

TEST_CASE("a bad tuning file is refused by a sentence with the place and the value") {
  CHECK(parse_error("{") == "smla: t.json is not JSON");
  CHECK(parse_error("[]") == "smla: t.json is no tuning file: it has no array \"entries\"");
  CHECK(parse_error("{\"smla_tuning\": 2, \"entries\": []}") ==
        "smla: t.json is a tuning file of version 2; this smla reads version 1");
  CHECK(parse_error("{\"entries\": [7]}") == "smla: t.json, entry 0: an object is wanted, and there is 7");
  CHECK(parse_error(text_with("\"ms\"", "\"speed\"")) ==
        "smla: t.json, entry 0: speed is no field of an entry");
  CHECK(parse_error(text_with("\"sorted\"", "\"upwards\"")) ==
        "smla: t.json, entry 0: order = \"upwards\" is none of auto, caller, sorted and throttled");
  CHECK(parse_error(text_with("\"sorted\"", "4")) == "smla: t.json, entry 0: order = 4 is no text");
  CHECK(parse_error(text_with("\"keys\": 4096", "\"keys\": 0")) ==
        "smla: t.json, entry 0: lengths.keys = 0 is not an integer from 1 to 2147483647");
  CHECK(parse_error(text_with("\"topk\": 2048", "\"topk\": 9223372036854775807")) ==
        "smla: t.json, entry 0: lengths.topk = 9223372036854775807 is not an integer from 1 to 2147483647");
  CHECK_THAT(parse_error(text_with("\"block_h\": 32", "\"block_h\": \"x\"")),
             contains("t.json, entry 0: config.block_h"));
  CHECK_THAT(parse_error(text_with("\"heads\": 16", "\"heads\": true")),
             contains("t.json, entry 0: problem.heads"));
  CHECK_THAT(parse_error(text_with("2.5", "\"fast\"")), contains("ms = \"fast\" is no number"));
}

TEST_CASE("a new measurement takes the place of the one of its device, problem and class of lengths") {
  Tuning tuning = {entry(4096, kTwoTokens, OrderRequest::sorted),
                   entry(8192, kTwoTokens, OrderRequest::sorted)};
  put_entry(tuning, entry(8191, kFourTokens, OrderRequest::callers));  // of 4096's class
  REQUIRE(tuning.size() == 2);
  CHECK(tuning[0].config == kFourTokens);
  CHECK(tuning[1].config == kTwoTokens);
  TunedEntry other = entry(4096, kTwoTokens, OrderRequest::sorted);
  other.device = "NVIDIA H100 PCIe";
  put_entry(tuning, other);
  other.problem.causal = true;
  put_entry(tuning, other);
  CHECK(tuning.size() == 4);
}

TEST_CASE("rows of all kv groups and topk make the class of lengths") {
  const auto same = [](const Problem& problem, std::int64_t keys, std::int64_t topk) {
    return same_class(problem, {1, 1, 4096, 2048}, {8, 99, keys, topk});
  };
  CHECK(same(kProblem, 4096, 2048));
  CHECK(same(kProblem, 8191, 4095));
  CHECK_FALSE(same(kProblem, 8192, 2048));
  CHECK_FALSE(same(kProblem, 4095, 2048));
  CHECK_FALSE(same(kProblem, 4096, 2047));
  CHECK(same({.heads = 16, .kv_groups = 2}, 4096, 2048));
}

TEST_CASE("a plan without limits takes a tuned config that all entries agree on; limits choose their class") {
  const Tuning agreed = {entry(4096, kTwoTokens, OrderRequest::callers),
                         entry(32768, kTwoTokens, OrderRequest::sorted)};
  const Tuning divided = {entry(4096, kTwoTokens, OrderRequest::callers),
                          entry(32768, kFourTokens, OrderRequest::sorted)};
  CHECK(tuned_config(agreed, {}) == kTwoTokens);
  CHECK_FALSE(tuned_config(divided, {}));
  CHECK_FALSE(tuned_config({}, {}));
  CHECK(tuned_config(divided, {.keys = 40000, .topk = 2048}) == kFourTokens);
  CHECK(tuned_config(divided, {.keys = 5000, .topk = 2048}) == kTwoTokens);
  CHECK_FALSE(tuned_config(divided, {.keys = 5000, .topk = 512}));
}

TEST_CASE("a tuned order counts for its class and config, where it can be had") {
  const Config two = choose_config(kProblem, parse_arch("sm_90a"), kTwoTokens).config;
  const Config four = choose_config(kProblem, parse_arch("sm_90a"), kFourTokens).config;
  const Tuning tuning = {entry(4096, kTwoTokens, OrderRequest::sorted),
                         entry(1 << 20, kTwoTokens, OrderRequest::sorted_throttled)};
  const auto order = [&](const Config& config, std::int64_t keys, const DeviceFacts& device = kH200) {
    return tuned_order(tuning, config, {1, 4096, keys, 2048}, device);
  };
  CHECK(order(two, 4096) == OrderRequest::sorted);
  CHECK(order(two, 8191) == OrderRequest::sorted);
  CHECK(order(two, 8192) == OrderRequest::automatic);
  CHECK(order(four, 4096) == OrderRequest::automatic);
  CHECK(order(two, 4096, {.multiprocessors = 132, .ctas_in_flight = 132}) == OrderRequest::automatic);
  // Of one class, and beyond what the pre-pass can sort: two bits a row in 231,424 bytes.
  CHECK(order(two, 1 << 20) == OrderRequest::automatic);
  CHECK_FALSE(can_sweep(two, {1, 64, 1 << 20, 2048}, kH200));
  CHECK(can_sweep(two, {1, 64, 1 << 19, 2048}, kH200));
}

TEST_CASE("a plan runs what SMLA_TUNING says of its device and problem, unless a caller forces something") {
  if (!compiler_found()) SKIP("no NVRTC");
  const smla_test::TemporaryDirectory directory;
  setenv("SMLA_LIBCUDA", SMLA_FAKE_LIBCUDA, 1);
  setenv("SMLA_CACHE_DIR", directory.path().c_str(), 1);
  const std::string device = device_properties(0).name;
  const std::filesystem::path file = directory.path() / "tuning.json";
  const auto use = [&](const Tuning& tuning) {
    std::ofstream(file) << tuning_text(tuning);
    setenv("SMLA_TUNING", file.c_str(), 1);
  };
  const Lengths lengths = {1, 64, 4096, 2048};
  TunedEntry tuned = entry(4096, kTwoTokens, OrderRequest::sorted);
  tuned.device = device;

  use({tuned});
  const auto plan = create_plan(kProblem, {}, 0);
  CHECK(plan->choice.config.block_h == 32);
  CHECK(plan->choice.why.front() == "SMLA_TUNING has a config for this device and problem");
  CHECK(order_of(*plan, lengths, OrderRequest::automatic).sweep);
  CHECK(order_of(*plan, lengths, OrderRequest::automatic).why ==
        "SMLA_TUNING has this order for such lengths");
  CHECK_FALSE(order_of(*plan, lengths, OrderRequest::callers).sweep);
  CHECK_FALSE(order_of(*plan, {1, 64, 8192, 2048}, OrderRequest::automatic).sweep);
  CHECK(workspace_size(*plan, lengths) == workspace_size(*plan, lengths, OrderRequest::sorted));

  const auto forced = create_plan(kProblem, kFourTokens, 0);
  CHECK(forced->choice.config.block_h == 16);
  CHECK_FALSE(order_of(*forced, lengths, OrderRequest::automatic).sweep);

  tuned.device = "another GPU";
  use({tuned});
  CHECK(create_plan(kProblem, {}, 0)->choice.config.block_h == 16);
  unsetenv("SMLA_TUNING");
  CHECK(create_plan(kProblem, {}, 0)->choice.config.block_h == 16);
  setenv("SMLA_TUNING", "", 1);
  CHECK(create_plan(kProblem, {}, 0)->choice.config.block_h == 16);

  tuned.device = device;
  tuned.config.block_h = 48;
  use({tuned});
  CHECK_THAT(message_of([&] { create_plan(kProblem, {}, 0); }),
             contains("SMLA_TUNING has a config for h16-d512t64-bf16 on " + device +
                      " that cannot work: block_h = 48"));
  setenv("SMLA_TUNING", "/nowhere/t.json", 1);
  CHECK(message_of([&] { create_plan(kProblem, {}, 0); }) ==
        "smla: SMLA_TUNING: the tuning file /nowhere/t.json cannot be read: No such file or directory");
  unsetenv("SMLA_TUNING");
}

TEST_CASE("a tuning file that is far too long is refused before all of it is read") {
  const smla_test::TemporaryDirectory directory;
  const auto file = directory.path() / "long.json";
  std::ofstream(file) << "{}";
  std::filesystem::resize_file(file, (16 << 20) + 1);
  CHECK(message_of([&] { read_tuning(file); }) ==
        "smla: the tuning file " + file.string() + " cannot be read: it is longer than 16777216 bytes");
}
