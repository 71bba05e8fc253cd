#include "compiler/ptxas_log.h"

#include <algorithm>
#include <charconv>

namespace smla::core {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool has(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

// The number that stands before `unit` in "Used 32 registers, used 1 barriers, 400 bytes smem"; 0 when there
// is none.
int number_before(std::string_view line, std::string_view unit) {
  const auto at = line.find(unit);
  if (at == std::string_view::npos || at == 0) return 0;
  auto first = at;
  while (first > 0 && line[first - 1] >= '0' && line[first - 1] <= '9') --first;
  int number = 0;
  std::from_chars(line.data() + first, line.data() + at, number);
  return number;
}

// "ptxas info    : text" without its first part.
std::string_view without_prefix(std::string_view line) {
  if (line.rfind("ptxas", 0) != 0) return line;
  const auto colon = line.find(':');
  return colon == std::string_view::npos ? line : trimmed(line.substr(colon + 1));
}

// ptxas numbers what it did against the author's intention: C7508 setmaxnreg, up to C7519 the wgmma pipeline.
bool is_lost_speed(std::string_view line) {
  const auto at = line.find("(C75");
  if (at != std::string_view::npos && line.size() >= at + 7 && line[at + 6] == ')') return true;
  return has(line, "Potential Performance Loss");
}

}  // namespace

std::vector<KernelResources> reported_resources(std::string_view log) {
  constexpr std::string_view kEntry = "Compiling entry function '";
  constexpr std::string_view kProperties = "Function properties for ";
  std::vector<KernelResources> kernels;
  bool of_kernel = false;  // the properties that follow belong to the last kernel, not to a function it calls
  for (const auto line : lines_of(log)) {
    if (const auto at = line.find(kEntry); at != std::string_view::npos) {
      const auto name = line.substr(at + kEntry.size());
      kernels.emplace_back().name = std::string(name.substr(0, name.find('\'')));
    } else if (const auto properties = line.find(kProperties); properties != std::string_view::npos) {
      of_kernel = !kernels.empty() && line.substr(properties + kProperties.size()) == kernels.back().name;
    } else if (of_kernel && has(line, " bytes stack frame")) {
      kernels.back().stack_bytes = number_before(line, " bytes stack frame");
      kernels.back().spill_store_bytes = number_before(line, " bytes spill stores");
      kernels.back().spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (of_kernel && has(line, " registers")) {
      kernels.back().registers = number_before(line, " registers");
      kernels.back().shared_bytes = number_before(line, " bytes smem");
    }
  }
  return kernels;
}

std::vector<std::string> reported_warnings(std::string_view log) {
  std::vector<std::string> warnings;
  for (const auto line : lines_of(log)) {
    const bool front_end =
        has(line, "): warning") || line.rfind("warning", 0) == 0 || has(line, "nvrtc: warning");
    if (!front_end && line.rfind("ptxas warning", 0) != 0 && !is_lost_speed(line)) continue;
    std::string warning(without_prefix(line));
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
  }
  return warnings;
}

std::vector<std::string> reported_errors(std::string_view log, std::size_t limit) {
  std::vector<std::string> errors;
  std::string_view last;
  for (const auto line : lines_of(log)) {
    if (!line.empty()) last = line;
    const bool marked = has(line, "): error") || has(line, "catastrophic error") ||
                        has(line, "nvrtc: error") ||
                        (line.rfind("ptxas", 0) == 0 && (has(line, "error") || has(line, "fatal")));
    if (marked && errors.size() < limit) errors.emplace_back(line);
  }
  if (errors.empty() && !last.empty() && limit > 0) errors.emplace_back(last);
  return errors;
}

}  // namespace smla::core
