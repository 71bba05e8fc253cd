#include "emulator/emulated_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "base/error.h"
#include "emulator_device_text.h"

namespace smla::core::emulator {
namespace {

std::string without_guard(std::string_view text) {
  constexpr std::string_view kGuard = "#pragma once\n";
  std::string result(text);
  if (const auto at = result.find(kGuard); at != std::string::npos) result.erase(at, kGuard.size());
  return result;
}

// Constants that say how many CTAs the clusters of a text's kernels have: the host's compiler evaluates what
// stands in the kernel's first line.
std::string cluster_sizes(const std::string& text) {
  static const std::regex kernel("PTX_KERNEL_CLUSTER\\(([^,]+),[^)]*\\)\\s*(\\w+)\\(");
  std::string sizes;
  for (std::sregex_iterator it(text.begin(), text.end(), kernel), end; it != end; ++it) {
    sizes += fmt::format("extern \"C\" const unsigned int {}{} = {};\n", kClusterSizeOf, (*it)[2].str(),
                         (*it)[1].str());
  }
  return sizes;
}

}  // namespace

std::string_view twin_text() {
  return kTwinText;
}

std::string emulated_text(const KernelSource& source) {
  std::string text, sizes;
  std::ptrdiff_t line = 1;
  bool replaced = false;
  for (const SourcePart& part : source.parts) {
    if (part.name == "ptx.cuh") {
      text += fmt::format("#line 1 \"calls.h\"\n{}\n#line 1 \"ptx.cuh\"\n{}\n", without_guard(kCallsText),
                          without_guard(kTwinText));
      replaced = true;
    } else {
      text += fmt::format("#line {} \"{}\"\n{}", line, kGeneratedFile, part.text);
      if (!part.text.empty() && part.text.back() != '\n') text += '\n';
      sizes += cluster_sizes(part.text);
    }
    line += std::count(part.text.begin(), part.text.end(), '\n');
    if (!part.text.empty() && part.text.back() != '\n') ++line;
  }
  if (!replaced)
    fail(Status::internal_error, "{} has no part named ptx.cuh for the emulator to replace", source.name);
  return text + sizes;
}

}  // namespace smla::core::emulator
