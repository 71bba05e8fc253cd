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

// The function of a kernel in the current context. Error cuda_error names `symbol`.
cuda::Function function_of(cuda::Kernel kernel, const char* symbol);

// What a launch starts. A kernel launches in the context of any stream, and the driver looks up its function
// there each time; a function saves that, in its own context.
struct Launchable {
  cuda::Kernel kernel = nullptr;
  cuda::Function function = nullptr;  // in the current context, or null
};

// One-dimensional launch with one parameter, by value. Uses the stream's context, or for the default stream
// the current one.
void launch(const Launchable& what, const char* symbol, unsigned grid, unsigned threads,
            unsigned dynamic_shared_bytes, cuda::Stream stream, const void* parameter);

}  // namespace smla::core
