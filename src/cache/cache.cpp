#include "cache/cache.h"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "cache/inventory.h"
#include "cache/key_lock.h"
#include "cache/make_directory.h"
#include "cache/memory_tier.h"
#include "cache/store.h"
#include "cache/warn_once.h"

namespace smla::core {
namespace {

namespace fs = std::filesystem;

struct Looked {
  std::optional<CacheEntry> entry;
  std::string fault;  // what is wrong with a file that is there
};

Looked look(const fs::path& directory, const CacheKey& key) {
  const fs::path file = directory / key.file_name();
  if (access(file.c_str(), F_OK) != 0) return {};
  Looked looked;
  try {
    looked.entry = read_entry(file);
    if (const auto fault = mismatch(*looked.entry, key); !fault.empty()) {
      looked.fault = fmt::format("{}: {}", file.string(), fault);
      looked.entry.reset();
    }
  } catch (const Error& error) {
    std::error_code gone;
    if (!fs::exists(file, gone)) return {};  // evicted in between
    looked.fault = reason(error);
  }
  return looked;
}

std::optional<CacheResult> find_in_system(const CacheDirectories& directories, const CacheKey& key) {
  if (!directories.system) return std::nullopt;
  auto looked = look(*directories.system, key);
  // Nobody replaces it, so this would be said for ever.
  if (!looked.fault.empty()) warn_once("entry of the system cache is passed over: " + looked.fault);
  if (!looked.entry) return std::nullopt;
  return CacheResult{*std::move(looked.entry), CacheSource::system_tier};
}

enum class Faults { warned, silent };

std::optional<CacheResult> find_in_user(const CacheDirectories& directories, const CacheKey& key,
                                        Faults faults) {
  if (!directories.user) return std::nullopt;
  auto looked = look(*directories.user, key);
  if (!looked.fault.empty() && faults == Faults::warned) {
    warn("entry of the kernel cache cannot be used and is built anew: {}", looked.fault);
  }
  if (!looked.entry) return std::nullopt;
  touch(*directories.user / key.file_name());
  return CacheResult{*std::move(looked.entry), CacheSource::user_tier};
}

void keep(const CacheDirectories& directories, const CacheEntry& entry) {
  const auto fault = store(*directories.user, entry);
  if (!fault.empty()) {
    warn_once(fmt::format(
        "the kernel cache {} cannot be written: {}; compiled kernels are kept in memory only. Set "
        "SMLA_CACHE_DIR to a directory that can be written",
        directories.user->string(), fault));
    return;
  }
  trim(*directories.user, directories.max_bytes, entry.key.file_name());
}

CacheResult build_and_keep(const CacheDirectories& directories, const CacheKey& key,
                           const std::function<Cubin()>& build) {
  if (!directories.user) return {{key, build()}, CacheSource::built};

  make_directory(*directories.user);  // where it fails, so does the lock, and `keep` says it
  const KeyLock lock(lock_file(*directories.user, key), directories.lock_wait);
  if (lock.state() == KeyLock::State::timed_out) {
    note("another process has been building {} for {} s; it is built here as well", key.stem,
         std::chrono::duration<double>(directories.lock_wait).count());
  }
  // Whoever held the lock before may have built it.
  if (auto found = find_in_user(directories, key, Faults::silent)) return *std::move(found);
  CacheResult result{{key, build()}, CacheSource::built};
  keep(directories, result.entry);
  return result;
}

// Builds in flight. A child of fork() inherits those of its parent's threads, which do not run in it: hence
// the process in the name.
using Flights = MemoryTier<std::string, std::shared_ptr<const CacheResult>>;

Flights& flights() {
  static Flights& all = *new Flights;  // never destroyed: threads may outlive static objects
  return all;
}

std::string flight_name(const CacheDirectories& directories, const CacheKey& key) {
  return fmt::format("{} {} {}", getpid(), key.file_name(),
                     directories.user ? directories.user->string() : "");
}

}  // namespace

std::optional<CacheResult> find(const CacheDirectories& directories, const CacheKey& key) {
  if (auto found = find_in_system(directories, key)) return found;
  return find_in_user(directories, key, Faults::warned);
}

CacheResult find_or_build(const CacheDirectories& directories, const CacheKey& key,
                          const std::function<Cubin()>& build) {
  if (auto found = find(directories, key)) return *std::move(found);
  const std::string flight = flight_name(directories, key);
  bool leads = false;
  const auto result = flights().get_or_build(flight, [&] {
    leads = true;
    return std::make_shared<const CacheResult>(build_and_keep(directories, key, build));
  });
  if (leads) flights().erase(flight);  // from here on the disk has it, or the caller's memory tier
  return *result;
}

std::optional<CacheResult> find_any(const CacheDirectories& directories, const CacheKey& key,
                                    std::string_view label) {
  const auto without_label = [&](const CacheKey& of) {
    auto lines = key_lines(of);
    lines.erase(
        std::remove_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == label; }),
        lines.end());
    return lines;
  };
  const auto wanted = without_label(key);
  const auto best_of = [&](const fs::path& directory) {
    std::optional<CacheEntry> best;
    for (const auto& file : entry_files(directory)) {
      if (file.filename().string().rfind(file_name_prefix(key), 0) != 0) continue;
      try {
        const CacheKey other = read_entry_header(file).key;
        if (other.stem != key.stem || without_label(other) != wanted) continue;
        CacheEntry entry = read_entry(file);
        if (!mismatch(entry, other).empty()) continue;  // it was replaced in between, or is damaged
        const auto version = key_value(entry.key, label).value_or("");
        // strverscmp counts: 12.10 is after 12.9.
        if (!best || strverscmp(version.c_str(), key_value(best->key, label).value_or("").c_str()) > 0) {
          best = std::move(entry);
        }
      } catch (const Error& error) {
        warn_once("entry of a kernel cache is passed over: " + reason(error));
      }
    }
    return best;
  };
  if (directories.system) {
    if (auto entry = best_of(*directories.system))
      return CacheResult{*std::move(entry), CacheSource::system_tier};
  }
  if (directories.user) {
    if (auto entry = best_of(*directories.user)) {
      touch(*directories.user / entry->key.file_name());
      return CacheResult{*std::move(entry), CacheSource::user_tier};
    }
  }
  return std::nullopt;
}

}  // namespace smla::core
