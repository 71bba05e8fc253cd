// Compiled kernels on disk: one file an entry, found by content. Knows nothing of generating or compiling.
// Every function here may be called from any thread and any number of processes at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "cache/directories.h"
#include "cache/entry.h"
#include "cache/key.h"

namespace smla::core {

enum class CacheSource { system_tier, user_tier, built };

struct CacheResult {
  CacheEntry entry;
  CacheSource source = CacheSource::built;
};

// Looks the key up in the system tier, then the user tier; on a miss calls `build` under this key's lock
// (between processes; bounded wait, then builds anyway with a note) and stores its result by temporary file,
// fsync and rename. Threads of one process share one build; what it throws reaches all of them and leaves the
// key usable. A corrupt, truncated or foreign entry is one warning and a miss, and is replaced. A failed
// write is a warning, once a directory; the entry is returned all the same.
CacheResult find_or_build(const CacheDirectories& directories, const CacheKey& key,
                          const std::function<Cubin()>& build);

// The lookup alone.
std::optional<CacheResult> find(const CacheDirectories& directories, const CacheKey& key);

// An entry of the same stem whose key text agrees in every line but the one labelled `label`; that line may
// be missing in `key`, and has the highest version among several entries of a tier. For a machine without
// NVRTC, which does not know what compiler version to ask for.
std::optional<CacheResult> find_any(const CacheDirectories& directories, const CacheKey& key,
                                    std::string_view label);

}  // namespace smla::core
