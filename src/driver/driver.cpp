#include "driver/driver.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace smla::core {
namespace {

constexpr int kOldestVersion = 12000;  // cuLibraryLoadData and launching a CUkernel came with CUDA 12.0

// Set in the child of a fork once the parent has initialised the driver: the driver's own state does not
// survive.
std::atomic<bool> forked_after_init = false;

std::atomic<const Driver*> live = nullptr;

std::vector<std::string> candidates() {
  if (const char* file = std::getenv("SMLA_LIBCUDA"); file != nullptr && *file != '\0') return {file};
  return {"libcuda.so.1",
          "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
          "/usr/lib64/libcuda.so.1",
          "/usr/local/nvidia/lib64/libcuda.so.1",
          "/usr/lib/wsl/lib/libcuda.so.1",
          "/usr/lib/aarch64-linux-gnu/libcuda.so.1"};
}

// Resolves the members of one Driver; remembers the first symbol that the library lacks.
class Resolver {
 public:
  explicit Resolver(void* library) : library_(library) {}

  template <class Pointer>
  void optional(Pointer& pointer, const char* symbol) const {
    static_assert(std::is_pointer_v<Pointer>);
    pointer = reinterpret_cast<Pointer>(dlsym(library_, symbol));
  }
  template <class Pointer>
  void operator()(Pointer& pointer, const char* symbol) {
    optional(pointer, symbol);
    if (pointer == nullptr && missing_.empty()) missing_ = symbol;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

Driver resolve_functions(void* library, const std::string& file) {
  Driver d;
  Resolver resolve(library);
  resolve(d.init, "cuInit");
  resolve(d.driver_get_version, "cuDriverGetVersion");
  resolve(d.get_error_name, "cuGetErrorName");
  resolve(d.get_error_string, "cuGetErrorString");
  resolve(d.device_get_count, "cuDeviceGetCount");
  resolve(d.device_get, "cuDeviceGet");
  resolve(d.device_get_name, "cuDeviceGetName");
  resolve(d.device_get_attribute, "cuDeviceGetAttribute");
  resolve(d.device_total_mem, "cuDeviceTotalMem_v2");
  resolve(d.primary_context_retain, "cuDevicePrimaryCtxRetain");
  resolve(d.context_get_current, "cuCtxGetCurrent");
  resolve(d.context_push_current, "cuCtxPushCurrent_v2");
  resolve(d.context_pop_current, "cuCtxPopCurrent_v2");
  resolve(d.context_get_device, "cuCtxGetDevice");
  resolve(d.context_get_id, "cuCtxGetId");
  resolve(d.context_synchronize, "cuCtxSynchronize");
  resolve(d.library_unload, "cuLibraryUnload");
  resolve(d.library_get_kernel, "cuLibraryGetKernel");
  resolve(d.kernel_get_function, "cuKernelGetFunction");
  resolve(d.kernel_set_attribute, "cuKernelSetAttribute");
  resolve(d.mem_alloc, "cuMemAlloc_v2");
  resolve(d.mem_free, "cuMemFree_v2");
  resolve(d.mem_get_info, "cuMemGetInfo_v2");
  resolve(d.memcpy_to_host, "cuMemcpyDtoHAsync_v2");
  resolve(d.memset_bytes, "cuMemsetD8Async");
  resolve(d.memset_words, "cuMemsetD32Async");
  resolve(d.stream_create, "cuStreamCreate");
  resolve(d.stream_destroy, "cuStreamDestroy_v2");
  resolve(d.stream_synchronize, "cuStreamSynchronize");
  resolve(d.stream_wait_event, "cuStreamWaitEvent");
  resolve(d.stream_is_capturing, "cuStreamIsCapturing");
  resolve(d.stream_begin_capture, "cuStreamBeginCapture_v2");
  resolve(d.stream_end_capture, "cuStreamEndCapture");
  resolve(d.graph_launch, "cuGraphLaunch");
  resolve(d.graph_exec_destroy, "cuGraphExecDestroy");
  resolve(d.graph_destroy, "cuGraphDestroy");
  resolve(d.event_create, "cuEventCreate");
  resolve(d.event_destroy, "cuEventDestroy_v2");
  resolve(d.event_record, "cuEventRecord");
  resolve(d.event_synchronize, "cuEventSynchronize");
  resolve(d.event_elapsed_time, "cuEventElapsedTime");
  resolve(d.library_load_data, "cuLibraryLoadData");
  resolve(d.max_active_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  resolve(d.launch_kernel, "cuLaunchKernel");
  resolve(d.memcpy_to_device, "cuMemcpyHtoDAsync_v2");
  resolve(d.memcpy_on_device, "cuMemcpyDtoDAsync_v2");
  resolve(d.graph_instantiate, "cuGraphInstantiateWithFlags");
  resolve.optional(d.function_load, "cuFuncLoad");
  d.library = file;
  if (d.init == nullptr || d.driver_get_version == nullptr) {
    fail(Status::no_driver, "{} is not the CUDA driver: it has no {}", file, resolve.missing());
  }
  if (d.driver_get_version(&d.version) == cuda::kSuccess && d.version < kOldestVersion) {
    fail(Status::no_driver, "the driver of {} supports CUDA {}.{}; the oldest that works is 12.0", file,
         d.version / 1000, d.version % 1000 / 10);
  }
  if (!resolve.missing().empty()) {
    fail(Status::no_driver, "{} lacks {}; a driver of CUDA 12.0 or later is needed", file, resolve.missing());
  }
  return d;
}

Driver open_driver() {
  std::vector<std::string> tried;
  for (const std::string& file : candidates()) {
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* reason = dlerror();
      tried.push_back(fmt::format("{} ({})", file, reason ? reason : "no reason given"));
      continue;
    }
    Driver d = resolve_functions(library, file);
    const cuda::Result result = d.init(0);
    if (result != cuda::kSuccess) {
      const char* name = nullptr;
      d.get_error_name(result, &name);
      fail(Status::no_driver,
           "cuInit of {} failed: {} ({}); is a GPU visible to this process (nvidia-smi, "
           "CUDA_VISIBLE_DEVICES)?",
           file, name ? name : "unknown error", result);
    }
    pthread_atfork(nullptr, nullptr, [] { forked_after_init = true; });
    return d;
  }
  fail(Status::no_driver,
       "the CUDA driver was not found; tried {}. It comes with the NVIDIA driver, and in a "
       "container from the host (docker run --gpus all); SMLA_LIBCUDA can name the file",
       fmt::join(tried, "; "));
}

}  // namespace

const Driver& driver() {
  // An exception leaves the static uninitialised, so the next call tries again.
  static const Driver opened = open_driver();
  if (forked_after_init.load(std::memory_order_relaxed)) {
    fail(Status::cuda_error,
         "this process was forked after its parent had initialised the CUDA driver, which does not survive a "
         "fork; "
         "start GPU work in the child only, or start the child with spawn or exec");
  }
  live.store(&opened, std::memory_order_relaxed);
  return opened;
}

const Driver* live_driver() noexcept {
  return forked_after_init.load(std::memory_order_relaxed) ? nullptr : live.load(std::memory_order_relaxed);
}

bool driver_available(std::string* why) {
  try {
    int count = 0;
    check(driver().device_get_count(&count), "cuDeviceGetCount");
    if (count > 0) return true;
    if (why != nullptr) *why = "smla: the CUDA driver is there and finds no GPU";
  } catch (const Error& error) {
    if (why != nullptr) *why = error.what();
  }
  return false;
}

void check(cuda::Result result, std::string_view call, std::string_view subject) {
  if (result == cuda::kSuccess) [[likely]]
    return;
  const Driver& d = driver();
  const char* name = nullptr;
  const char* description = nullptr;
  d.get_error_name(result, &name);
  d.get_error_string(result, &description);
  fail(Status::cuda_error, "{}{}{}{}: {} ({}), {}", call, subject.empty() ? "" : "(", subject,
       subject.empty() ? "" : ")", name ? name : "unknown error", result,
       description ? description : "no description");
}

}  // namespace smla::core
