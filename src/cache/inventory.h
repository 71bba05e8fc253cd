// What tools do with a directory of entries. Nothing here builds, and only `trim` and `clear` change
// anything.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "cache/store.h"

namespace smla::core {

struct CacheListing {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point last_use;  // a hit touches the file
  CacheEntry entry;                                // without its image
  std::string fault;                               // why the header cannot be read; empty when it can
};

// Entries of a directory by name. A directory that does not exist has none.
std::vector<CacheListing> list_entries(const std::filesystem::path& directory);

struct CacheVerdict {
  std::filesystem::path path;
  std::string fault;  // empty: whole, and under its own name
};

// Reads every entry to its last byte.
std::vector<CacheVerdict> verify_entries(const std::filesystem::path& directory);

// Removes the least recently used entries until the rest has at most `max_bytes`, and what dead processes
// left behind. `keep` is a file name that stays.
CacheRemoval trim(const std::filesystem::path& directory, std::uint64_t max_bytes,
                  const std::string& keep = "");

// Removes all entries, the memos, abandoned temporaries and locks, and the sources of failed compilations.
// What a running process is writing stays, as does the directory itself.
CacheRemoval clear(const std::filesystem::path& directory);

struct KeyDifference {
  std::string label, wanted, found;  // empty where a text lacks the label
};

struct MissExplanation {
  bool present = false;  // it is there and whole: no miss
  std::filesystem::path
      closest;        // the entry that differs least, or the one itself; empty when nothing is alike
  std::string fault;  // what is wrong with the file under the key's own name
  std::vector<KeyDifference> differences;
  std::string sentence;  // all of it for a person
};

// The closest entry of both tiers: same stem or same "source-sha256" line, fewest lines that differ.
MissExplanation explain_miss(const CacheKey& key, const CacheDirectories& directories);

}  // namespace smla::core
