// The cases of the contract on the emulator: every body in all schedules, with the layouts that it asks for.
#include "cases_of_layouts.h"
#include "cases_of_lists.h"
#include "cases_of_numbers.h"
#include "cpu_call.h"

using namespace smla_test;

namespace {

void check_on_emulator(CaseBody body) {
  require_host_compiler();
  body([](const Case& c) { return run_on_emulator(c, parse_arch("sm_80"), 2); }, 3);
  body([](const Case& c) { return run_on_emulator(c, parse_arch("sm_90a"), 5); }, 64);
  body([](const Case& c) { return run_on_emulator(c, parse_arch("sm_90a"), 6); }, 5);   // 8 tokens a CTA
  body([](const Case& c) { return run_on_emulator(c, parse_arch("sm_90a"), 7); }, 65);  // two CTAs a token
}

// The same with sums of integers.
void check_deterministic_on_emulator(CaseBody body) {
  require_host_compiler();
  const auto run_with = [](const char* arch) {
    return [arch](Case c) {
      c.problem.deterministic = true;
      return run_on_emulator(c, parse_arch(arch), 3);
    };
  };
  body(run_with("sm_80"), 3);
  body(run_with("sm_90a"), 64);
}

// The same in partial sums, and by their fallback where fp16 cannot hold a case.
void check_partial_on_emulator(CaseBody body) {
  require_host_compiler();
  if (body == twice_listed_counts_twice) SKIP(kAlikeAdditions);
  body(
      [](Case c) {
        if (c.problem.dtype == DType::bf16) c.problem.accumulate = Accumulate::partial;
        return run_on_emulator(c, parse_arch("sm_90a"), 4);
      },
      64);
}

}  // namespace

#define SMLA_CPU_CASE(name, body) \
  TEST_CASE(name) {               \
    check_on_emulator(body);      \
  }

#define SMLA_DETERMINISTIC_CPU_CASE(name, body) \
  TEST_CASE("Deterministic: " name) {           \
    check_deterministic_on_emulator(body);      \
  }

#define SMLA_PARTIAL_CPU_CASE(name, body) \
  TEST_CASE("Partial: " name) {           \
    check_partial_on_emulator(body);      \
  }

SMLA_CASES_OF_LISTS(SMLA_CPU_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_CPU_CASE)
SMLA_CASES_OF_LAYOUTS(SMLA_CPU_CASE)
SMLA_CASES_OF_LISTS(SMLA_DETERMINISTIC_CPU_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_DETERMINISTIC_CPU_CASE)
SMLA_CASES_OF_LISTS(SMLA_PARTIAL_CPU_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_PARTIAL_CPU_CASE)
