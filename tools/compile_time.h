// How long a compilation took, in words.
#pragma once

#include <fmt/format.h>

#include <string>

namespace smla::core {

// "1.46 s (1.42 s of a core)". On a machine that is busy the first tells about the machine, the second about
// the kernel.
inline std::string compile_time(double seconds, double cpu_seconds) {
  return fmt::format("{:.2f} s ({:.2f} s of a core)", seconds, cpu_seconds);
}

}  // namespace smla::core
