// Machine code of one translation unit, with what the compiler said about it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smla::core {

struct KernelResources {
  std::string name = {};      // the extern "C" symbol
  int registers = 0;          // a thread, at launch
  int spill_store_bytes = 0;  // a thread
  int spill_load_bytes = 0;
  int stack_bytes = 0;
  int shared_bytes = 0;  // static
  std::int64_t code_bytes = 0;

  bool operator==(const KernelResources&) const = default;
};

struct Cubin {
  std::string arch;         // "sm_90a"
  std::vector<char> image;  // an ELF file
  std::vector<KernelResources> kernels;
  std::string compiler;               // "NVRTC 13.0"
  std::string log;                    // NVRTC's, with ptxas's resource usage and warnings
  std::vector<std::string> warnings;  // the log's warnings and ptxas's notes of lost speed, a line each
  double compile_seconds = 0;         // wall time of the compilation that made it
  double compile_cpu_seconds = 0;     // processor time of the same

  bool operator==(const Cubin&) const = default;
};

// The kernel of this name, or null.
inline const KernelResources* find_kernel(const Cubin& cubin, std::string_view name) {
  for (const KernelResources& kernel : cubin.kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

}  // namespace smla::core
