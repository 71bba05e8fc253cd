#include "plan/functions.h"

#include <optional>

#include "plan/launches.h"

namespace smla::core {

FunctionTable::FunctionTable(const Kernels& kernels) {
  for (std::size_t role = 0; role < kernels.size(); ++role) kernels_[role].kernel = kernels[role];
}

const Launchables* FunctionTable::find(ContextId context) const noexcept {
  const std::size_t count = count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (entries_[i].context == context) return &entries_[i].launchables;
  }
  return nullptr;
}

const Launchables& FunctionTable::of_current_context() {
  const std::optional<ContextId> context = current_context();
  if (!context) return kernels_;  // the launch will say what is wrong
  if (const Launchables* known = find(*context)) return *known;
  const std::lock_guard lock(adding_);
  if (const Launchables* known = find(*context)) return *known;
  const std::size_t count = count_.load(std::memory_order_relaxed);
  if (count == entries_.size()) return kernels_;
  Entry entry = {*context, kernels_};
  for (std::size_t role = 0; role < kernels_.size(); ++role) {
    Launchable& l = entry.launchables[role];
    if (l.kernel != nullptr) l.function = function_of(l.kernel, name_of(static_cast<KernelRole>(role)));
  }
  entries_[count] = entry;
  count_.store(count + 1, std::memory_order_release);
  return entries_[count].launchables;
}

}  // namespace smla::core
