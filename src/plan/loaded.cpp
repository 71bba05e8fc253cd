#include "plan/loaded.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "config/arch.h"
#include "driver/library.h"

namespace smla::core {
namespace {

struct Entry {
  std::shared_ptr<const Prepared> prepared;  // keeps the address, which is the key, taken
  std::unique_ptr<LoadedLibrary> library;
  std::map<cuda::Device, LoadedKernels> devices;
};

struct Table {
  std::mutex mutex;
  std::map<const Prepared*, Entry> entries;
};

// Never destroyed: at exit the driver may be gone before us, and work may still be queued.
Table& table() {
  static Table& only = *new Table;
  return only;
}

LoadedKernels make_all_ready(const Prepared& prepared, const LoadedLibrary& library,
                             const DeviceProperties& device) {
  const CurrentDevice current(device.handle);
  LoadedKernels loaded;
  Kernels kernels = {};
  loaded.facts.multiprocessors = device.multiprocessors;
  for (const KernelFacts& facts : prepared.kernels) {
    const cuda::Kernel kernel = library.kernel(facts.name);
    int shared_bytes = facts.shared_bytes;
    if (facts.role == KernelRole::sort_lists) {  // whatever the lengths of a call need
      const KernelResources* resources = find_kernel(prepared.cubin, facts.name);
      shared_bytes =
          shared_memory_limit(prepared.arch) - (resources != nullptr ? resources->shared_bytes : 0);
      loaded.facts.sort_shared_limit = shared_bytes;
    }
    const cuda::Function function = make_ready(kernel, facts.name, shared_bytes, device.handle);
    if (facts.role == KernelRole::backward) {
      loaded.facts.ctas_in_flight = std::max(
          1, device.multiprocessors * ctas_per_multiprocessor(function, facts.threads, shared_bytes));
    }
    kernels[static_cast<std::size_t>(facts.role)] = kernel;
  }
  auto functions = std::make_unique<FunctionTable>(kernels);
  functions->of_current_context();
  loaded.functions = functions.release();  // into the table, which is never emptied
  return loaded;
}

}  // namespace

LoadedKernels load_kernels(const std::shared_ptr<const Prepared>& prepared, const DeviceProperties& device) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  Entry& entry = all.entries[prepared.get()];
  entry.prepared = prepared;
  if (entry.library == nullptr) {
    entry.library = std::make_unique<LoadedLibrary>(prepared->cubin.image, prepared->name);
  }
  const auto found = entry.devices.find(device.handle);
  if (found != entry.devices.end()) return found->second;
  return entry.devices.emplace(device.handle, make_all_ready(*prepared, *entry.library, device))
      .first->second;
}

bool is_loaded(const Prepared& prepared, const DeviceProperties& device) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(&prepared);
  return found != all.entries.end() && found->second.devices.count(device.handle) > 0;
}

}  // namespace smla::core
