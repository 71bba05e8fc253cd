// The table of what is supported: written by asking the rules, so that what it says is what they do.
#include "config/facts.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "catch.h"

using namespace smla::core;

namespace {

std::string value_of(const ScheduleFacts& schedule, const std::string& field) {
  for (const Fact& fact : schedule.facts) {
    if (fact.field == field) return fact.values;
  }
  return "no such field";
}

}  // namespace

TEST_CASE("numbers are told as runs, as steps that go on, or one by one") {
  CHECK(in_words({}, 100) == "none");
  CHECK(in_words({7}, 100) == "7");
  CHECK(in_words({16, 32, 64}, 256) == "16, 32, 64");
  CHECK(in_words({1, 2, 3, 4, 5}, 100) == "1 to 5");
  CHECK(in_words({1, 2, 3, 4, 8, 16}, 100) == "1 to 4, 8, 16");
  CHECK(in_words({20, 40, 60, 80, 100}, 100) == "multiples of 20");
  CHECK(in_words({20, 40, 60, 80, 100}, 200) == "20, 40, 60, 80, 100");
  CHECK(in_words({1, 2, 3, 4, 40, 60, 80, 100}, 100) == "1 to 4, multiples of 20 from 40");
}

TEST_CASE("every schedule has the same facts, and none is empty") {
  const std::vector<ScheduleFacts> schedules = schedule_facts();
  REQUIRE(schedules.size() == 3);
  for (const ScheduleFacts& schedule : schedules) {
    CAPTURE(name(schedule.schedule));
    REQUIRE(schedule.facts.size() == schedules.front().facts.size());
    for (std::size_t i = 0; i < schedule.facts.size(); ++i) {
      CHECK(schedule.facts[i].field == schedules.front().facts[i].field);
      CHECK(schedule.facts[i].values != "none");
      CHECK_FALSE(schedule.facts[i].values.empty());
    }
  }
}

TEST_CASE("facts are the answers of the rules") {
  const std::vector<ScheduleFacts> schedules = schedule_facts();
  const ScheduleFacts& cp_async = schedules[0];
  const ScheduleFacts& wgmma = schedules[1];
  const ScheduleFacts& pair = schedules[2];
  CHECK(value_of(cp_async, "archs") == "sm_80 and later");
  CHECK(value_of(wgmma, "archs") == "sm_90a");
  CHECK(value_of(pair, "archs") == "sm_90a");
  CHECK(value_of(pair, "heads") == "65 to 128, multiples of 128 from 256");
  CHECK(value_of(pair, "kv_groups") == "divisors of heads that leave such a number a group");
  CHECK(value_of(pair, "dtypes") == "bf16");
  CHECK(value_of(cp_async, "heads") == "1 to 128, multiples of 64 from 192");
  CHECK(value_of(cp_async, "kv_groups") == "any divisor of heads");
  CHECK(value_of(cp_async, "threads") == "128, 256");
  for (const ScheduleFacts& schedule : schedules) {
    CAPTURE(name(schedule.schedule));
    const auto says = [&](const char* option) {
      return value_of(schedule, "options").find(option) != std::string::npos;
    };
    const auto does = [&](Problem p) {
      try {
        p.heads = schedule.schedule == Schedule::wgmma_pair ? 128 : 64;
        choose_config(p, {90, true}, {.schedule = schedule.schedule});
        return true;
      } catch (const Error&) {
        return false;
      }
    };
    CHECK(says("deterministic") == does({.deterministic = true}));
    CHECK(says("partial") == does({.accumulate = Accumulate::partial}));
    CHECK(says("causal") == does({.causal = true}));
  }
}
