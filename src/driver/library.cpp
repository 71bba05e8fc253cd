#include "driver/library.h"

#include "driver/driver.h"

namespace smla::core {

LoadedLibrary::LoadedLibrary(const std::vector<char>& image, std::string_view name) {
  check(driver().library_load_data(&library_, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cuLibraryLoadData", name);
}

LoadedLibrary::~LoadedLibrary() {
  if (const Driver* d = live_driver(); d != nullptr && library_ != nullptr) d->library_unload(library_);
}

cuda::Kernel LoadedLibrary::kernel(const std::string& symbol) const {
  cuda::Kernel found = nullptr;
  check(driver().library_get_kernel(&found, library_, symbol.c_str()), "cuLibraryGetKernel", symbol);
  return found;
}

cuda::Function make_ready(cuda::Kernel kernel, const std::string& symbol, int dynamic_shared_bytes,
                          cuda::Device device) {
  const Driver& d = driver();
  const cuda::Function function = function_of(kernel, symbol.c_str());
  if (d.function_load != nullptr) check(d.function_load(function), "cuFuncLoad", symbol);
  check(d.kernel_set_attribute(cuda::kMaxDynamicSharedSizeBytes, dynamic_shared_bytes, kernel, device),
        "cuKernelSetAttribute", symbol);
  return function;
}

int ctas_per_multiprocessor(cuda::Function function, int threads, int dynamic_shared_bytes) {
  int blocks = 0;
  check(
      driver().max_active_blocks(&blocks, function, threads, static_cast<std::size_t>(dynamic_shared_bytes)),
      "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  return blocks;
}

cuda::Function function_of(cuda::Kernel kernel, const char* symbol) {
  cuda::Function function = nullptr;
  check(driver().kernel_get_function(&function, kernel), "cuKernelGetFunction", symbol);
  return function;
}

void launch(const Launchable& what, const char* symbol, unsigned grid, unsigned threads,
            unsigned dynamic_shared_bytes, cuda::Stream stream, const void* parameter) {
  const Driver& d = driver();
  void* parameters[] = {const_cast<void*>(parameter)};  // the driver copies it and never writes
  const auto start = [&](cuda::Function function) {
    return d.launch_kernel(function, grid, 1, 1, threads, 1, 1, dynamic_shared_bytes, stream, parameters,
                           nullptr);
  };
  // A CUkernel in place of a CUfunction is what cuLaunchKernel takes since CUDA 12.0.
  const auto kernel = reinterpret_cast<cuda::Function>(what.kernel);
  cuda::Result result = start(what.function != nullptr ? what.function : kernel);
  // The stream may be of another context than the current one, which a function does not reach.
  const bool elsewhere = result == cuda::kErrorInvalidHandle || result == cuda::kErrorInvalidContext;
  if (what.function != nullptr && elsewhere) result = start(kernel);
  check(result, "cuLaunchKernel", symbol);
}

}  // namespace smla::core
