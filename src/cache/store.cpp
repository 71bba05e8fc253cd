#include "cache/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "cache/key_lock.h"
#include "cache/make_directory.h"

namespace smla::core {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLockSuffix = ".lock";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::chrono::seconds kFresh{60};  // a file may exist for a moment before its lock does
constexpr std::chrono::hours kFailureAge{7 * 24};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Several processes, threads and hosts may write into one directory.
fs::path temporary_file(const fs::path& directory, const std::string& name) {
  static std::atomic<unsigned> count{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const char* const mark = ends_with(name, kEntrySuffix) ? "" : kEntrySuffix;  // by which a sweep knows ours
  return directory / fmt::format(".{}{}.{}-{}-{:x}{}", name, mark, getpid(), count++, now, kTemporarySuffix);
}

// Returns 0 or errno.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return fsync(descriptor) == 0 ? 0 : errno;
}

CacheRemoval sweep_older(const fs::path& directory, std::chrono::seconds age,
                         std::chrono::seconds failure_age) {
  CacheRemoval swept;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  const auto is_older = [&](const fs::directory_entry& entry, std::chrono::seconds limit) {
    std::error_code fault;
    const auto written = entry.last_write_time(fault);
    return !fault && now - written >= limit;
  };
  const auto count = [&](std::uint64_t bytes) {
    ++swept.files;
    swept.bytes += bytes;
  };
  const auto size_of = [](const fs::directory_entry& entry) {
    std::error_code fault;
    const auto bytes = entry.file_size(fault);
    return fault ? 0 : static_cast<std::uint64_t>(bytes);
  };
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool ours = name.front() == '.' && name.find(kEntrySuffix) != std::string::npos &&
                      (ends_with(name, kLockSuffix) || ends_with(name, kTemporarySuffix));
    if (!ours || !is_older(*at, age)) continue;
    const auto bytes = size_of(*at);
    if (remove_abandoned(at->path())) count(bytes);
  }
  for (fs::directory_iterator at(directory / "failed", error), end; !error && at != end;
       at.increment(error)) {
    std::error_code fault;
    if (!at->is_regular_file(fault) || !is_older(*at, failure_age)) continue;
    const auto bytes = size_of(*at);
    if (fs::remove(at->path(), fault)) count(bytes);
  }
  return swept;
}

}  // namespace

fs::path lock_file(const fs::path& directory, const CacheKey& key) {
  return directory / fmt::format(".{}{}", key.file_name(), kLockSuffix);
}

std::string replace_file(const fs::path& directory, const std::string& name, std::string_view bytes) {
  if (const auto fault = make_directory(directory); !fault.empty()) return fault;
  const fs::path temporary = temporary_file(directory, name);
  // Readable by all: the directory decides who gets here, and a directory that is shipped is read by other
  // users.
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) return std::strerror(errno);
  flock(descriptor, LOCK_EX | LOCK_NB);  // tells a sweep that its writer lives
  int fault = write_all(descriptor, bytes);
  if (fault == 0 && rename(temporary.c_str(), (directory / name).c_str()) != 0) fault = errno;
  if (fault != 0) unlink(temporary.c_str());
  close(descriptor);
  return fault == 0 ? "" : std::strerror(fault);
}

std::string store(const fs::path& directory, const CacheEntry& entry) {
  return replace_file(directory, entry.key.file_name(), to_bytes(entry));
}

void touch(const fs::path& file) {
  utimensat(AT_FDCWD, file.c_str(), nullptr, 0);
}

std::vector<fs::path> entry_files(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.front() != '.' && ends_with(name, kEntrySuffix)) files.push_back(at->path());
  }
  return files;
}

CacheRemoval sweep(const fs::path& directory) {
  return sweep_older(directory, kFresh, kFailureAge);
}

CacheRemoval sweep_all(const fs::path& directory) {
  constexpr std::chrono::hours kAny{-24 * 365};  // files of the future too: clocks of hosts differ
  return sweep_older(directory, kAny, kAny);
}

}  // namespace smla::core
