// The kernels of a plan as functions of contexts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "driver/device.h"
#include "driver/library.h"
#include "generator/kernel_source.h"

namespace smla::core {

using Kernels = std::array<cuda::Kernel, kKernelRoles>;    // by KernelRole; null where there is none
using Launchables = std::array<Launchable, kKernelRoles>;  // the same, for launches in one context

// What launches start, one entry a context that has launched. Entries are added and never change, so that a
// launch finds its own without a lock and without the heap. Contexts beyond kContexts, which a process would
// have to make one after another, launch the kernels themselves.
class FunctionTable {
 public:
  static constexpr std::size_t kContexts = 16;

  explicit FunctionTable(const Kernels& kernels);

  // Of this context, or null where it has launched nothing yet.
  const Launchables* find(ContextId context) const noexcept;

  // Of the current context, which is one of the kernels' device; adds it when it is new.
  const Launchables& of_current_context();

 private:
  struct Entry {
    ContextId context = {};
    Launchables launchables;
  };
  Launchables kernels_;
  std::array<Entry, kContexts> entries_;
  std::atomic<std::size_t> count_ = 0;  // entries below are complete
  std::mutex adding_;
};

}  // namespace smla::core
