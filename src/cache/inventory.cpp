#include "cache/inventory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "cache/memo.h"
#include "cache/store.h"

namespace smla::core {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSourceLabel = "source-sha256";

struct Used {
  fs::path path;
  std::uint64_t bytes = 0;
  timespec when{};
};

std::optional<Used> usage_of(const fs::path& path) {
  struct stat facts {};
  if (lstat(path.c_str(), &facts) != 0 || S_ISDIR(facts.st_mode)) return std::nullopt;
  return Used{path, static_cast<std::uint64_t>(facts.st_size), facts.st_mtim};
}

bool is_before(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

// Removes an entry unless it has been used or replaced since.
bool remove_unused(const Used& entry) {
  const auto now = usage_of(entry.path);
  if (!now || is_before(entry.when, now->when)) return false;
  return unlink(entry.path.c_str()) == 0;
}

std::vector<KeyDifference> differences_of(const CacheKey& wanted, const CacheKey& found) {
  std::vector<KeyDifference> differences;
  for (const auto& [label, value] : key_lines(wanted)) {
    const auto other = key_value(found, label);
    if (other != value) differences.push_back({label, value, other.value_or("")});
  }
  for (const auto& [label, value] : key_lines(found)) {
    if (!key_value(wanted, label)) differences.push_back({label, "", value});
  }
  return differences;
}

// The sentence about `explanation`, whose other fields are filled.
std::string sentence_of(const MissExplanation& explanation) {
  std::string sentence;
  if (explanation.present) return fmt::format("{} is there and whole.", explanation.closest.string());
  if (!explanation.fault.empty())
    sentence = fmt::format("The file under its name cannot be used: {}. ", explanation.fault);
  if (explanation.closest.empty()) return sentence + "No entry has the same shape or the same source.";
  sentence += fmt::format("The closest entry is {}.", explanation.closest.string());
  for (const auto& [label, wanted, found] : explanation.differences) {
    sentence += fmt::format(" It differs in {}: \"{}\" is wanted, it has \"{}\".", label, wanted, found);
  }
  return sentence;
}

}  // namespace

std::vector<CacheListing> list_entries(const fs::path& directory) {
  std::vector<CacheListing> listings;
  auto files = entry_files(directory);
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    const auto used = usage_of(file);
    if (!used) continue;  // evicted in between
    CacheListing listing;
    listing.path = file;
    listing.bytes = used->bytes;
    listing.last_use = std::chrono::system_clock::from_time_t(used->when.tv_sec) +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(
                           std::chrono::nanoseconds(used->when.tv_nsec));
    try {
      listing.entry = read_entry_header(file);
    } catch (const Error& error) {
      listing.fault = reason(error);
    }
    listings.push_back(std::move(listing));
  }
  return listings;
}

std::vector<CacheVerdict> verify_entries(const fs::path& directory) {
  std::vector<CacheVerdict> verdicts;
  auto files = entry_files(directory);
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    CacheVerdict verdict{file, ""};
    try {
      const CacheEntry entry = read_entry(file);
      verdict.fault = mismatch(entry, entry.key);
      if (entry.key.file_name() != file.filename()) {
        verdict.fault = "it holds another key, of " + entry.key.file_name();
      }
      if (!verdict.fault.empty()) verdict.fault = fmt::format("{}: {}", file.string(), verdict.fault);
    } catch (const Error& error) {
      verdict.fault = reason(error);
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

CacheRemoval trim(const fs::path& directory, std::uint64_t max_bytes, const std::string& keep) {
  CacheRemoval removal = sweep(directory);
  std::vector<Used> entries;
  std::uint64_t total = 0;
  for (const auto& file : entry_files(directory)) {
    const auto used = usage_of(file);
    if (!used) continue;
    total += used->bytes;
    if (file.filename() != keep) entries.push_back(*used);
  }
  std::sort(entries.begin(), entries.end(),
            [](const Used& a, const Used& b) { return is_before(a.when, b.when); });
  for (const auto& entry : entries) {
    if (total <= max_bytes) break;
    if (!remove_unused(entry)) continue;
    total -= entry.bytes;
    ++removal.files;
    removal.bytes += entry.bytes;
  }
  return removal;
}

CacheRemoval clear(const fs::path& directory) {
  CacheRemoval removal = sweep_all(directory);
  unlink(memo_file(directory).c_str());  // no kernel, and not counted as one
  for (const auto& file : entry_files(directory)) {
    const auto used = usage_of(file);
    if (!used || unlink(file.c_str()) != 0) continue;
    ++removal.files;
    removal.bytes += used->bytes;
  }
  return removal;
}

MissExplanation explain_miss(const CacheKey& key, const CacheDirectories& directories) {
  MissExplanation explanation;
  std::size_t fewest = 0;
  for (const auto& directory : {directories.system, directories.user}) {
    if (!directory) continue;
    for (const auto& listing : list_entries(*directory)) {
      const bool own_name = listing.path.filename() == key.file_name();
      if (own_name) {
        try {
          const CacheEntry entry = read_entry(listing.path);
          const auto fault = mismatch(entry, key);
          if (fault.empty()) {
            explanation = {
                .present = true, .closest = listing.path, .fault = "", .differences = {}, .sentence = ""};
            explanation.sentence = sentence_of(explanation);
            return explanation;
          }
          explanation.fault = fmt::format("{}: {}", listing.path.string(), fault);
        } catch (const Error& error) {
          explanation.fault = reason(error);
        }
        continue;
      }
      if (!listing.fault.empty()) continue;
      const CacheKey& other = listing.entry.key;
      const auto source = key_value(key, kSourceLabel);
      if (other.stem != key.stem && !(source && source == key_value(other, kSourceLabel))) continue;
      auto differences = differences_of(key, other);
      if (!explanation.closest.empty() && differences.size() >= fewest) continue;
      fewest = differences.size();
      explanation.closest = listing.path;
      explanation.differences = std::move(differences);
    }
  }
  explanation.sentence = sentence_of(explanation);
  return explanation;
}

}  // namespace smla::core
