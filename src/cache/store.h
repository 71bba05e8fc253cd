// Files of one cache directory: writing an entry, and what surrounds it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cache/entry.h"

namespace smla::core {

struct CacheRemoval {
  int files = 0;
  std::uint64_t bytes = 0;
};

inline constexpr const char* kEntrySuffix = ".smla";

// The lock file of a key. Locks and temporaries are hidden files beside the entries.
std::filesystem::path lock_file(const std::filesystem::path& directory, const CacheKey& key);

// Writes a file of this name by temporary file, fsync and rename. Returns an empty string or what went wrong;
// then nothing is left behind.
std::string replace_file(const std::filesystem::path& directory, const std::string& name,
                         std::string_view bytes);

// Writes the entry under its own name, as replace_file.
std::string store(const std::filesystem::path& directory, const CacheEntry& entry);

// Marks an entry as used now, where that is permitted.
void touch(const std::filesystem::path& file);

// Paths of the entries, in no order; their names alone decide.
std::vector<std::filesystem::path> entry_files(const std::filesystem::path& directory);

// What dead processes left: temporaries and locks that nobody holds and that are older than a minute, and
// sources of failed compilations older than a week.
CacheRemoval sweep(const std::filesystem::path& directory);

// The same without regard to age, and all failed sources.
CacheRemoval sweep_all(const std::filesystem::path& directory);

}  // namespace smla::core
