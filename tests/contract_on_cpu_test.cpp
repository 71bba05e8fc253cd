// The cases of the contract on the emulator: every body in both schedules, with the layouts that it asks for.
#include <map>
#include <memory>
#include <string>

#include "cases_of_layouts.h"
#include "cases_of_lists.h"
#include "cases_of_numbers.h"
#include "cpu_kernels.h"

using namespace smla_test;

namespace {

// Cases share problems: each is compiled once.
const CpuSubject& subject_of(const Case& c, const Arch& arch) {
  static std::map<std::string, std::unique_ptr<CpuSubject>> known;
  const Config config = choose_config(c.problem, arch, c.request).config;
  std::unique_ptr<CpuSubject>& subject = known[canonical_name(c.problem) + canonical_name(config)];
  if (!subject) subject = std::make_unique<CpuSubject>(c.problem, config, generate(c.problem, config));
  return *subject;
}

Outputs run_on_emulator(const Case& c, const Arch& arch, std::uint64_t seed) {
  const emulator::CpuCall call = emulator::make_cpu_call(c.problem, c.tensors, c.order, c.layout);
  const CpuSubject& subject = subject_of(c, arch);
  const emulator::Report report =
      emulator::run_on_cpu(subject.source, *subject.kernels, c.problem, subject.config, call.call,
                           {.seed = seed, .virtual_sms = 2, .step_limit = 50'000'000});
  INFO(subject.source.name << ", seed " << seed << "\n" << emulator::describe(report));
  REQUIRE(report.clean());
  const emulator::CpuOutputs got = emulator::outputs_of(c.problem, call);
  Outputs outputs = rounded(c.problem, {got.d_q, got.d_kv, got.d_sink});  // exact: they are of these types
  outputs.surroundings_intact = got.surroundings_intact;
  return outputs;
}

void check_on_emulator(CaseBody body) {
  require_host_compiler();
  body([](const Case& c) { return run_on_emulator(c, parse_arch("sm_80"), 2); }, 3);
  body([](const Case& c) { return run_on_emulator(c, parse_arch("sm_90a"), 5); }, 64);
  body([](const Case& c) { return run_on_emulator(c, parse_arch("sm_90a"), 6); }, 5);  // 8 tokens a CTA
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

}  // namespace

#define SMLA_CPU_CASE(name, body) \
  TEST_CASE(name) {               \
    check_on_emulator(body);      \
  }

#define SMLA_DETERMINISTIC_CPU_CASE(name, body) \
  TEST_CASE("Deterministic: " name) {           \
    check_deterministic_on_emulator(body);      \
  }

SMLA_CASES_OF_LISTS(SMLA_CPU_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_CPU_CASE)
SMLA_CASES_OF_LAYOUTS(SMLA_CPU_CASE)
SMLA_CASES_OF_LISTS(SMLA_DETERMINISTIC_CPU_CASE)
SMLA_CASES_OF_NUMBERS(SMLA_DETERMINISTIC_CPU_CASE)
