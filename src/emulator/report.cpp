#include "emulator/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace smla::core::emulator {

bool Report::has(std::string_view kind) const {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.kind == kind; });
}

void Report::add(const Report& other) {
  findings.insert(findings.end(), other.findings.begin(), other.findings.end());
  launches += other.launches;
  ctas += other.ctas;
  steps += other.steps;
  collectives += other.collectives;
  wgmmas += other.wgmmas;
  mmas += other.mmas;
  copies += other.copies;
  reductions += other.reductions;
  cpu_seconds += other.cpu_seconds;
}

std::string describe(const Report& report) {
  std::string text;
  for (const Finding& f : report.findings) text += fmt::format("[{}] {}\n", f.kind, f.text);
  return text + fmt::format(
                    "{} finding(s); {} launches, {} CTAs, {} wgmmas and {} mmas of a warp, {} copies, {} "
                    "reductions, "
                    "{} collectives, {:.2f} s\n",
                    report.findings.size(), report.launches, report.ctas, report.wgmmas, report.mmas,
                    report.copies, report.reductions, report.collectives, report.cpu_seconds);
}

}  // namespace smla::core::emulator
