#include "config/arch.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace smla::core {
namespace {

constexpr int kKnownNumbers[] = {80, 86, 87, 89, 90, 100, 103, 120};

}  // namespace

std::string name(const Arch& arch) {
  return fmt::format("sm_{}{}", arch.number, arch.features ? "a" : "");
}

std::vector<Arch> known_archs() {
  return {{80},  {86},        {87},  {89},        {90},  {90, true},
          {100}, {100, true}, {103}, {103, true}, {120}, {120, true}};
}

Arch parse_arch(std::string_view text) {
  for (const Arch& arch : known_archs()) {
    const std::string full = name(arch);
    if (text == full || text == std::string_view(full).substr(3)) return arch;
  }
  std::vector<std::string> names;
  for (const Arch& arch : known_archs()) names.push_back(name(arch));
  fail(Status::invalid_argument, "arch = \"{}\" is not known; known are {}", text, fmt::join(names, ", "));
}

Arch arch_of_device(int major, int minor) {
  const int number = major * 10 + minor;
  if (std::find(std::begin(kKnownNumbers), std::end(kKnownNumbers), number) == std::end(kKnownNumbers)) {
    fail(Status::not_supported,
         "a GPU of compute capability {}.{} is not supported; the oldest that works is 8.0", major, minor);
  }
  return {number, number == 90};  // only the Hopper schedules use instructions of one architecture alone
}

int shared_memory_limit(const Arch& arch) {
  switch (arch.number) {
    case 80:
    case 87:
      return 163 * 1024;
    case 86:
    case 89:
    case 120:
      return 99 * 1024;
    default:
      return 227 * 1024;  // 90, 100, 103
  }
}

bool has_wgmma(const Arch& arch) {
  return arch.number == 90 && arch.features;
}

bool has_vector_reductions(const Arch& arch) {
  return arch.number >= 90;
}

}  // namespace smla::core
