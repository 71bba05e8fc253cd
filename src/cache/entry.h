// A compiled kernel with its key, and the file that holds both.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cache/key.h"
#include "compiler/cubin.h"

namespace smla::core {

struct CacheEntry {
  CacheKey key;
  Cubin cubin;
  bool operator==(const CacheEntry&) const = default;
};

// The bytes of a file: magic and version of the format, lengths, stem, key text, the cubin's report as JSON,
// its image, and the SHA-256 of all that. Bytes that are no UTF-8 in the compiler's log are replaced.
std::string to_bytes(const CacheEntry& entry);

// The inverse. Error (invalid_argument) says what is wrong with bytes that are not a whole entry, as the end
// of a sentence: "it is cut short: 100 of 4223 bytes".
CacheEntry entry_from_bytes(std::string_view bytes);

// Why an entry that is whole is not what `key` asks for: another key, or machine code of another arch than
// the key's "arch" line. Empty when it is.
std::string mismatch(const CacheEntry& entry, const CacheKey& key);

// Reads and verifies one file. Error (invalid_argument) says what is wrong with it and names it.
CacheEntry read_entry(const std::filesystem::path& file);

// The same without the image and without verifying it: cheap, for listings.
CacheEntry read_entry_header(const std::filesystem::path& file);

// What these errors say, without "smla: ": for use inside another sentence.
std::string reason(const Error& error);

}  // namespace smla::core
