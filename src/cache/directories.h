// Where entries are kept, and whom to trust.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace smla::core {

struct CacheDirectories {
  std::optional<std::filesystem::path> system;  // read only, looked up first
  std::optional<std::filesystem::path> user;    // empty: memory only, and `user_reason` says why
  std::string user_reason;
  std::uint64_t max_bytes = std::uint64_t{1} << 30;  // of the user tier: the least recently used go
  std::chrono::milliseconds lock_wait =
      std::chrono::seconds(30);  // for another process that builds the same key
};

// SMLA_SYSTEM_CACHE_DIR, and SMLA_CACHE_DIR, else $XDG_CACHE_HOME/smla, else $HOME/.cache/smla;
// SMLA_CACHE_MAX_BYTES. The user directory is created with mode 0700 when it is missing.
//
// A directory that was found (XDG, HOME) is refused when it belongs to another user, when others can write
// it, or when they can exchange it (its parent is theirs, or open to them without the sticky bit). One that
// was named is used, with one warning when others can write it. A refusal or a failure is a warning, once a
// process and reason, and means memory only; it names SMLA_CACHE_DIR. Throws nothing but std::bad_alloc.
CacheDirectories cache_directories();

// Where a failed compilation leaves its source: "failed" in the user directory; empty without one.
std::filesystem::path failure_directory(const CacheDirectories& directories);

}  // namespace smla::core
