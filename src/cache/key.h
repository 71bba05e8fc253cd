// What an entry is found by.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace smla::core {

// One labelled fact: {"arch", "sm_90a"}.
using KeyLine = std::pair<std::string, std::string>;

// `text` is canonical and labelled, one fact a line (schema, source sha256, arch, compiler, options); its
// SHA-256 is the identity. `stem` is for people and leads the file's name.
struct CacheKey {
  std::string stem;  // "sparse-mla-bwd-h64-d512t64-bf16-wgmma-...-sm_90a"
  std::string text;  // "schema: 1\nsource-sha256: 9f86...\n..."

  std::string hash() const;       // 64 hex digits of SHA-256(text)
  std::string file_name() const;  // stem-<first 16 digits of the hash>.smla; a long stem is cut
  bool operator==(const CacheKey&) const = default;
};

// "label: value" a line, in the order given. Error (invalid_argument): a label that is empty, repeated or
// holds ':', a line break anywhere, an empty stem.
CacheKey make_key(std::string stem, const std::vector<KeyLine>& lines);

// The facts of a text that make_key wrote.
std::vector<KeyLine> key_lines(const CacheKey& key);

// One of them.
std::optional<std::string> key_value(const CacheKey& key, std::string_view label);

// What every file name of entries with this stem begins with.
std::string file_name_prefix(const CacheKey& key);

}  // namespace smla::core
