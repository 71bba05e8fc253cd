// Faults seeded into the generated kernels: the emulator keeps finding what it finds. Each is a substitution
// in the text of one part; a fault whose text is gone fails here, so that the list follows the templates.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "fault_cases.h"
#include "seeded_faults.h"

using namespace smla_test;

namespace {

void replace_in_part(KernelSource& source, const Substitution& change) {
  for (SourcePart& part : source.parts) {
    if (part.name != change.part) continue;
    const auto at = part.text.find(change.from);
    INFO("in " << change.part << ": " << change.from);
    REQUIRE(at != std::string::npos);
    part.text.replace(at, std::string_view(change.from).size(), change.to);
    return;
  }
  FAIL("no part named " << change.part);
}

void find_all(const std::vector<SeededFault>& faults, const Problem& problem, const Arch& arch, bool sweeps) {
  require_host_compiler();
  const std::vector<FaultCase> cases = fault_cases(problem, sweeps);
  const Config config = choose_config(problem, arch).config;
  const KernelSource good = generate(problem, config);
  REQUIRE(first_findings({problem, config, good}, cases, 2) == "");
  for (const SeededFault& fault : faults) {
    KernelSource source = good;
    for (const Substitution& change : fault.changes) replace_in_part(source, change);
    const std::string found = first_findings({problem, config, source}, cases, 4);
    std::printf("%-14s %s\n    %s\n", fault.name, fault.what,
                !found.empty()           ? found.c_str()
                : fault.harmless_because ? fault.harmless_because
                                         : "NOT FOUND");
    INFO(fault.name << ": " << fault.what);
    if (fault.harmless_because) {
      CHECK(found == "");
    } else {
      CHECK(found != "");
    }
  }
}

}  // namespace

TEST_CASE("The emulator finds each fault seeded into schedule wgmma") {
  find_all(wgmma_faults(), {.heads = 64, .has_sink = true}, parse_arch("sm_90a"), true);
}

TEST_CASE("The emulator finds each fault seeded into schedule wgmma_pair") {
  find_all(wgmma_pair_faults(), {.heads = 128, .has_sink = true}, parse_arch("sm_90a"), true);
}

TEST_CASE("The emulator finds each fault seeded into sums of integers") {
  find_all(deterministic_faults(), {.heads = 64, .has_sink = true, .deterministic = true},
           parse_arch("sm_90a"), true);
}

TEST_CASE("The emulator finds each fault seeded into schedule cp_async") {
  find_all(cp_async_faults(), {.heads = 64, .has_sink = true}, parse_arch("sm_90"), false);
}
