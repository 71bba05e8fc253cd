// Values of this process by key, each built once: concurrent callers of a key wait for the one that builds
// it.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace smla::core {

// Value is copied out, so it is a std::shared_ptr where it is large. A hit takes a shared lock, a hash and a
// copy. Nothing is evicted: there are as many values as the program has shapes.
template <class Key, class Value, class Hash = std::hash<Key>>
class MemoryTier {
 public:
  MemoryTier() = default;
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;

  // The key's value; on a miss `build()` makes it, in the calling thread and without a lock held. What
  // `build` throws reaches every caller that waited for it, as the same exception, and the key is as if never
  // asked for. `build` must not ask for its own key.
  template <class Build>
  Value get_or_build(const Key& key, Build&& build) {
    if (auto value = find(key)) return *std::move(value);

    std::promise<Value> promise;
    std::shared_future<Value> value;
    std::size_t mine = 0;
    {
      const std::unique_lock lock(mutex_);
      const auto [slot, is_new] = slots_.try_emplace(key);
      if (is_new) slot->second = {promise.get_future().share(), mine = ++builds_};
      value = slot->second.value;
    }
    if (mine != 0) {
      try {
        promise.set_value(std::forward<Build>(build)());
      } catch (...) {
        // First usable again, then known to have failed: who saw the failure may try at once.
        {
          const std::unique_lock lock(mutex_);
          const auto slot = slots_.find(key);
          if (slot != slots_.end() && slot->second.build == mine) slots_.erase(slot);
        }
        promise.set_exception(std::current_exception());
        throw;
      }
    }
    return value.get();
  }

  // The key's value when it is there already: waits for no build.
  std::optional<Value> find(const Key& key) const {
    const std::shared_lock lock(mutex_);
    const auto slot = slots_.find(key);
    if (slot == slots_.end()) return std::nullopt;
    const auto& value = slot->second.value;
    if (value.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
    return value.get();  // never throws: a failed build's slot goes before its failure is known
  }

  // Forgets a key. A build in flight goes on for those who wait for it.
  void erase(const Key& key) {
    const std::unique_lock lock(mutex_);
    slots_.erase(key);
  }

  void clear() {
    const std::unique_lock lock(mutex_);
    slots_.clear();
  }

  // Keys that are there or being built.
  std::size_t size() const {
    const std::shared_lock lock(mutex_);
    return slots_.size();
  }

 private:
  struct Slot {
    std::shared_future<Value> value;
    std::size_t build = 0;  // tells this build from a later one of the same key
  };

  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, Slot, Hash> slots_;
  std::size_t builds_ = 0;
};

}  // namespace smla::core
