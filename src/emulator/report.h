// What the emulator has to say about a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace smla::core::emulator {

// One thing that PTX does not allow or does not promise, as seen in this run.
struct Finding {
  std::string kind;    // "race-RAW", "deadlock", "no-proxy-fence" ...; README.md explains each
  std::string text;    // who, where in the generated text, what
  bool fatal = false;  // the run ended here
};

struct Report {
  std::vector<Finding> findings;

  // What was executed.
  std::uint64_t launches = 0, ctas = 0, steps = 0, collectives = 0, wgmmas = 0, mmas = 0, copies = 0,
                reductions = 0;
  double cpu_seconds = 0;

  bool clean() const { return findings.empty(); }
  bool has(std::string_view kind) const;
  void add(const Report& other);
};

// As a person reads it: a line a finding, then what was executed.
std::string describe(const Report& report);

}  // namespace smla::core::emulator
