// What the tests of the cache share: an entry that needs no compiler, an environment, a log that is kept.
#pragma once

#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "cache/cache.h"
#include "temporary_directory.h"

namespace smla_test {

inline smla::core::CacheKey key_of(const std::string& stem, const std::string& compiler = "NVRTC 13.0",
                                   const std::string& source = "aa",
                                   const std::string& options = "-std=c++17") {
  return smla::core::make_key(stem, {{"schema", "1"},
                                     {"source-sha256", source},
                                     {"arch", "sm_90a"},
                                     {"compiler", compiler},
                                     {"options", options}});
}

// `bytes` of machine code that depend on `seed`.
inline smla::core::Cubin cubin_of(std::size_t bytes = 1000, int seed = 0) {
  smla::core::Cubin cubin;
  cubin.arch = "sm_90a";
  cubin.compiler = "NVRTC 13.0";
  cubin.log = "ptxas info    : 0 bytes gmem\n";
  cubin.warnings = {"one", "two \"quoted\""};
  cubin.compile_seconds = 1.0 / 3;
  cubin.compile_cpu_seconds = 0.1;
  cubin.kernels = {{.name = "backward",
                    .registers = 240,
                    .spill_store_bytes = 8,
                    .spill_load_bytes = 16,
                    .stack_bytes = 24,
                    .shared_bytes = 1024,
                    .code_bytes = 31232},
                   {.name = "preprocess", .registers = 32}};
  cubin.image.resize(bytes);
  for (std::size_t i = 0; i < bytes; ++i) cubin.image[i] = static_cast<char>(static_cast<int>(i) * 31 + seed);
  return cubin;
}

inline smla::core::CacheDirectories user_directory(const std::filesystem::path& path) {
  smla::core::CacheDirectories directories;
  directories.user = path;
  return directories;
}

// find_or_build that counts what it builds.
struct Builder {
  int builds = 0;
  std::size_t bytes = 1000;
  smla::core::CacheResult operator()(const smla::core::CacheDirectories& directories,
                                     const smla::core::CacheKey& key) {
    return smla::core::find_or_build(directories, key, [this] {
      ++builds;
      return cubin_of(bytes);
    });
  }
};

// Collects warnings and notes instead of printing them.
class Log {
 public:
  Log() {
    smla::core::set_log_sink([this](smla::core::LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      if (level == smla::core::LogLevel::warning) warnings_.emplace_back(message);
      if (level == smla::core::LogLevel::info) notes_.emplace_back(message);
    });
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log() { smla::core::set_log_sink({}); }

  std::vector<std::string> warnings() const {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  std::vector<std::string> notes() const {
    const std::lock_guard lock(mutex_);
    return notes_;
  }
  // One warning a line.
  std::string text() const {
    std::string text;
    for (const auto& warning : warnings()) text += warning + "\n";
    return text;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> warnings_, notes_;
};

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_file(const std::filesystem::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary) << content;
}

// Names in a directory, hidden ones too.
inline std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

}  // namespace smla_test
