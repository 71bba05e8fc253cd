// Machine code in the driver: loaded once a process, independent of contexts, launched on any device of its
// arch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "driver/cuda_abi.h"

namespace smla::core {

// Owns a loaded cubin. Unloading waits for nothing, so an owner must outlive all work that it launched.
class LoadedLibrary {
 public:
  // Error cuda_error names `name`.
  LoadedLibrary(const std::vector<char>& image, std::string_view name);
  ~LoadedLibrary();
  LoadedLibrary(const LoadedLibrary&) = delete;
  LoadedLibrary& operator=(const LoadedLibrary&) = delete;

  cuda::Kernel kernel(const std::string& symbol) const;

 private:
  cuda::Library library_ = nullptr;
};

// Makes the kernel ready on the device of the current context, so that its first launch loads nothing: its
// module is loaded and it may use `dynamic_shared_bytes`. Returns its function in the current context.
cuda::Function make_ready(cuda::Kernel kernel, const std::string& symbol, int dynamic_shared_bytes,
                          cuda::Device device);

// CTAs that one SM runs at once.
int ctas_per_multiprocessor(cuda::Function function, int threads, int dynamic_shared_bytes);

// One-dimensional launch of a kernel with one parameter, by value. Uses the current context.
void launch(cuda::Kernel kernel, const char* symbol, unsigned grid, unsigned threads,
            unsigned dynamic_shared_bytes, cuda::Stream stream, const void* parameter);

}  // namespace smla::core
