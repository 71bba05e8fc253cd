// Cases of the contract on the emulator, with the layouts that they ask for.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "contract_case.h"
#include "cpu_kernels.h"

namespace smla_test {

// Cases share problems: each is compiled once.
inline const CpuSubject& subject_of(const Problem& problem, const ConfigRequest& request, const Arch& arch) {
  static std::map<std::string, std::unique_ptr<CpuSubject>> known;
  const Config config = choose_config(problem, arch, request).config;
  std::unique_ptr<CpuSubject>& subject = known[canonical_name(problem) + canonical_name(config)];
  if (!subject) subject = std::make_unique<CpuSubject>(problem, config, generate(problem, config));
  return *subject;
}

inline Outputs run_on_emulator(const Case& c, const Arch& arch, std::uint64_t seed) {
  const emulator::CpuCall call = emulator::make_cpu_call(c.problem, c.tensors, c.order, c.layout);
  const CpuSubject& subject = subject_of(c.problem, c.request, arch);
  std::optional<emulator::CpuFallback> fallback;
  if (c.problem.accumulate == Accumulate::partial) {
    const CpuSubject& fp32 = subject_of(with_fp32_sums(c.problem), same_blocks(subject.config), arch);
    fallback.emplace(emulator::CpuFallback{fp32.source, *fp32.kernels});
  }
  const emulator::Report report = emulator::run_on_cpu(
      subject.source, *subject.kernels, c.problem, subject.config, call.call,
      {.seed = seed, .virtual_sms = 2, .step_limit = 50'000'000}, fallback ? &*fallback : nullptr);
  INFO(subject.source.name << ", seed " << seed << "\n" << emulator::describe(report));
  REQUIRE(report.clean());
  const emulator::CpuOutputs got = emulator::outputs_of(c.problem, call);
  Outputs outputs = rounded(c.problem, {got.d_q, got.d_kv, got.d_sink});  // exact: they are of these types
  outputs.surroundings_intact = got.surroundings_intact;
  return outputs;
}

}  // namespace smla_test
