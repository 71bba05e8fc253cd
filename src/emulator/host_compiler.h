// Kernels compiled for the host: a shared object by the system's C++ compiler, loaded into this process.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "generator/kernel_source.h"

namespace smla::core::emulator {

// The first of CXX, c++, g++ and clang++ that can be run. Error no_compiler when there is none.
std::string find_host_compiler();

// The kernels of a source, ready to be called in lanes. Unloaded with the object.
class CompiledKernels {
 public:
  ~CompiledKernels();
  CompiledKernels(const CompiledKernels&) = delete;
  CompiledKernels& operator=(const CompiledKernels&) = delete;

  // The address of an entry. Error internal_error when there is none of that name.
  void* entry(const std::string& name) const;
  // The CTAs of a cluster of that entry, as PTX_KERNEL_CLUSTER says in the text; 1 without.
  unsigned cluster_size(const std::string& name) const;
  double compile_seconds() const { return compile_seconds_; }

 private:
  friend std::unique_ptr<CompiledKernels> compile_for_host(const KernelSource& source);
  CompiledKernels() = default;
  std::filesystem::path directory_;
  void* library_ = nullptr;
  double compile_seconds_ = 0;
};

// Writes the text (emulated_text), compiles and loads it, in a temporary directory that goes with the result.
// Errors: no_compiler; compile_failed with the compiler's first words.
std::unique_ptr<CompiledKernels> compile_for_host(const KernelSource& source);

}  // namespace smla::core::emulator
