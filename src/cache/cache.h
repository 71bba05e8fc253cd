// Compiled kernels on disk: one file an entry, found by content. Knows nothing of generating or compiling.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/cubin.h"

namespace smla::core {

// What an entry is found by. `text` is canonical and labelled, one fact a line (schema, source sha256, arch,
// compiler, options); its SHA-256 is the identity. `stem` is for people and leads the file's name.
struct CacheKey {
  std::string stem;  // "sparse-mla-bwd-h64-d512t64-bf16-wgmma-...-sm_90a"
  std::string text;

  std::string hash() const;       // 64 hex digits of SHA-256(text)
  std::string file_name() const;  // stem-<first 16 digits of the hash>.smla
  bool operator==(const CacheKey&) const = default;
};

struct CacheEntry {
  CacheKey key;
  Cubin cubin;
  bool operator==(const CacheEntry&) const = default;
};

// Where entries are kept. Empty `user` means memory only, and `user_reason` says why (said once to the log).
struct CacheDirectories {
  std::optional<std::filesystem::path> system;  // read only, looked up first
  std::optional<std::filesystem::path> user;
  std::string user_reason;
};

// SMLA_SYSTEM_CACHE_DIR, and SMLA_CACHE_DIR, else $XDG_CACHE_HOME/smla, else $HOME/.cache/smla, under the rules of
// trust in the architecture page.
CacheDirectories cache_directories();

enum class CacheSource { system_tier, user_tier, built };

struct CacheResult {
  CacheEntry entry;
  CacheSource source;
};

// Looks the key up in the system tier, then the user tier; on a miss calls `build` under this key's lock (between
// processes; bounded wait, then builds anyway) and stores its result by temporary file, fsync and rename. A corrupt,
// truncated or foreign entry is one warning and a miss. A failed write is a warning; the entry is returned all the same.
CacheResult find_or_build(const CacheDirectories& directories, const CacheKey& key,
                          const std::function<Cubin()>& build);

std::optional<CacheResult> find(const CacheDirectories& directories, const CacheKey& key);

// Reads and verifies one file. Error (invalid_argument) says what is wrong with it.
CacheEntry read_entry(const std::filesystem::path& file);

}  // namespace smla::core
