// KernelSource -> Cubin with NVRTC, which is opened at run time. Needs no GPU and no driver.
#pragma once

#include <string>
#include <vector>

#include "compiler/cubin.h"
#include "config/arch.h"
#include "generator/kernel_source.h"

namespace smla::core {

struct CompilerVersion {
  int major = 0, minor = 0;
  std::string library;  // the path that was opened
};

// Opens NVRTC on first use: SMLA_NVRTC (a file), then libnvrtc.so.13 and .12 of the dynamic linker's path, CUDA_HOME,
// CUDA_PATH, /usr/local/cuda*, then NVIDIA's Python wheels beside the interpreter. Error no_compiler lists every path tried.
CompilerVersion compiler_version();

// Compiler options for an arch, in the order in which they are part of the key.
std::vector<std::string> compile_options(const Arch& arch);

// Errors: no_compiler (not found, or the arch is newer than this NVRTC: names its path, version, the arch),
// compile_failed (writes the source and the command that reproduces it into a directory it names).
Cubin compile(const KernelSource& source, const Arch& arch);

// PTX of the same translation unit, for reading.
std::string compile_to_ptx(const KernelSource& source, const Arch& arch);

}  // namespace smla::core
