// A compiled kernel with its key, and the file that holds both.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cache/key.h"
#include "compiler/cubin.h"

namespace smla::core {

struct CacheEntry {
  CacheKey key;
  Cubin cubin;
  bool operator==(const CacheEntry&) const = default;
};

// The bytes of a file: magic and version of the format, lengths, SHA-256 of all that follows, then stem, key
// text, the cubin's report as JSON, and its image.
std::string to_bytes(const CacheEntry& entry);

// The inverse. Error (invalid_argument) says what is wrong with bytes that are not a whole entry, as the end
// of a sentence: "it is cut short: 100 of 4223 bytes".
CacheEntry entry_from_bytes(std::string_view bytes);

// Reads and verifies one file. Error (invalid_argument) says what is wrong with it and names it.
CacheEntry read_entry(const std::filesystem::path& file);

// The same without the image and without verifying it: cheap, for listings.
CacheEntry read_entry_header(const std::filesystem::path& file);

}  // namespace smla::core
