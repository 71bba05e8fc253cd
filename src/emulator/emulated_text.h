// The text that the host's compiler gets for a KernelSource.
#pragma once

#include <string>
#include <string_view>

#include "generator/kernel_source.h"

namespace smla::core::emulator {

// What compiler and debug information call the generated text.
inline constexpr std::string_view kGeneratedFile = "generated.cu";

// Begins the name of a constant of the text: the CTAs of a cluster of the kernel whose name follows. Kernels
// without clusters have none.
inline constexpr std::string_view kClusterSizeOf = "smla_emulator_cluster_size_of_";

// The parts of the source with the emulator's twin in the place of "ptx.cuh"; lines keep the numbers that
// they have in KernelSource::text(). Error internal_error when the source has no such part.
std::string emulated_text(const KernelSource& source);

// device/ptx.cuh, the twin, as it was embedded at build time.
std::string_view twin_text();

}  // namespace smla::core::emulator
