#include "cache/directories.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "cache/make_directory.h"
#include "cache/warn_once.h"

namespace smla::core {
namespace {

namespace fs = std::filesystem;

std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

fs::path absolute(const fs::path& path) {
  std::error_code error;
  const fs::path result = fs::absolute(path, error);
  return error ? path : result;
}

// Why someone else could put files into this directory; empty when nobody but root can.
std::string open_to_others(const struct stat& facts) {
  if (facts.st_uid != geteuid() && facts.st_uid != 0)
    return fmt::format("it belongs to user {}", facts.st_uid);
  if (facts.st_mode & (S_IWGRP | S_IWOTH)) {
    return fmt::format("others can write it (mode {:o})", facts.st_mode & 07777);
  }
  return "";
}

// What speaks against a directory that was found rather than named; empty when nothing does.
std::string distrust(const fs::path& directory) {
  struct stat facts {};
  if (stat(directory.c_str(), &facts) != 0) return std::strerror(errno);
  if (facts.st_uid != geteuid()) return fmt::format("it belongs to user {}", facts.st_uid);
  if (const auto reason = open_to_others(facts); !reason.empty()) return reason;
  const fs::path parent = directory.parent_path();
  if (stat(parent.c_str(), &facts) != 0) return std::strerror(errno);
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return fmt::format("{} belongs to user {}", parent.string(), facts.st_uid);
  }
  if ((facts.st_mode & S_IWOTH) && !(facts.st_mode & S_ISVTX)) {
    return fmt::format("others can write {} (mode {:o})", parent.string(), facts.st_mode & 07777);
  }
  return "";
}

void warn_if_open(const fs::path& directory, const char* variable) {
  struct stat facts {};
  if (stat(directory.c_str(), &facts) != 0) return;
  const auto reason = open_to_others(facts);
  if (reason.empty()) return;
  warn_once(fmt::format("{} = {} is used although {}: whoever writes there decides what runs on the GPU",
                        variable, directory.string(), reason));
}

void choose_system(CacheDirectories& directories) {
  constexpr const char* kVariable = "SMLA_SYSTEM_CACHE_DIR";
  const std::string named = value_of(kVariable);
  if (named.empty()) return;
  const fs::path directory = absolute(named);
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    warn_once(fmt::format("{} = {} is no directory; there is no system cache", kVariable, named));
    return;
  }
  warn_if_open(directory, kVariable);
  directories.system = directory;
}

// $XDG_CACHE_HOME or $HOME/.cache with "smla" below it; empty when both are unset. Relative values do not
// count, as the XDG specification has it.
fs::path found_directory() {
  const fs::path xdg = value_of("XDG_CACHE_HOME");
  if (xdg.is_absolute()) return xdg / "smla";
  const fs::path home = value_of("HOME");
  if (home.is_absolute()) return home / ".cache" / "smla";
  return {};
}

void choose_user(CacheDirectories& directories) {
  constexpr const char* kVariable = "SMLA_CACHE_DIR";
  const std::string named = value_of(kVariable);
  const fs::path directory = named.empty() ? found_directory() : absolute(named);
  std::string& reason = directories.user_reason;
  if (directory.empty()) {
    reason = "none of SMLA_CACHE_DIR, XDG_CACHE_HOME and HOME is set";
  } else if (const auto fault = make_directory(directory); !fault.empty()) {
    reason = fmt::format("{} cannot be created: {}", directory.string(), fault);
  } else if (named.empty()) {
    const auto objection = distrust(directory);
    if (!objection.empty()) reason = fmt::format("{} is not trusted: {}", directory.string(), objection);
  } else {
    warn_if_open(directory, kVariable);
  }
  if (reason.empty()) {
    directories.user = directory;
  } else {
    warn_once(
        fmt::format("compiled kernels are kept in memory only: {}. Set {} to a directory that can be written",
                    reason, kVariable));
  }
}

void choose_limit(CacheDirectories& directories) {
  constexpr const char* kVariable = "SMLA_CACHE_MAX_BYTES";
  const std::string text = value_of(kVariable);
  if (text.empty()) return;
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size()) {
    warn_once(fmt::format("{} = {} is no number of bytes; the limit is {}", kVariable, text,
                          directories.max_bytes));
    return;
  }
  directories.max_bytes = bytes;
}

}  // namespace

CacheDirectories cache_directories() {
  CacheDirectories directories;
  choose_system(directories);
  choose_user(directories);
  choose_limit(directories);
  return directories;
}

fs::path failure_directory(const CacheDirectories& directories) {
  return directories.user ? *directories.user / "failed" : fs::path();
}

}  // namespace smla::core
