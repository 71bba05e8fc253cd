#include "cache/key.h"

#include <algorithm>

#include "base/error.h"
#include "cache/sha256.h"

namespace smla::core {
namespace {

constexpr std::size_t kStemLimit =
    180;  // leaves room for hash, process and suffixes in the 255 bytes of a name
constexpr std::size_t kHashDigits = 16;  // in a file's name: 64 bits tell entries of one directory apart

}  // namespace

std::string CacheKey::hash() const {
  return sha256_hex(text);
}

std::string file_name_prefix(const CacheKey& key) {
  std::string prefix = key.stem.substr(0, kStemLimit);
  std::replace(prefix.begin(), prefix.end(), '/', '_');
  if (!prefix.empty() && prefix.front() == '.')
    prefix.front() = '_';  // hidden names are locks and temporaries
  return prefix + "-";
}

std::string CacheKey::file_name() const {
  return file_name_prefix(*this) + hash().substr(0, kHashDigits) + ".smla";
}

CacheKey make_key(std::string stem, const std::vector<KeyLine>& lines) {
  if (stem.empty() || stem.find('\n') != std::string::npos) {
    fail(Status::invalid_argument, "a cache key's stem must be one line, not \"{}\"", stem);
  }
  CacheKey key{std::move(stem), ""};
  for (auto line = lines.begin(); line != lines.end(); ++line) {
    const std::string& label = line->first;
    const std::string& value = line->second;
    const bool repeated =
        std::any_of(lines.begin(), line, [&](const auto& other) { return other.first == label; });
    if (label.empty() || repeated || label.find_first_of(":\n") != std::string::npos ||
        value.find('\n') != std::string::npos) {
      fail(Status::invalid_argument, "\"{}: {}\" cannot be a line of a cache key{}", label, value,
           repeated ? ": its label is there already" : "");
    }
    key.text += label + ": " + value + "\n";
  }
  return key;
}

std::vector<KeyLine> key_lines(const CacheKey& key) {
  std::vector<KeyLine> lines;
  std::string_view rest = key.text;
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto colon = line.find(": ");
    if (colon == std::string_view::npos) continue;  // not of make_key
    lines.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  return lines;
}

std::optional<std::string> key_value(const CacheKey& key, std::string_view label) {
  for (auto& [name, value] : key_lines(key)) {
    if (name == label) return std::move(value);
  }
  return std::nullopt;
}

}  // namespace smla::core
