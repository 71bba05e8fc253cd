#include "cache/memo.h"

#include <fmt/format.h>

#include <cstddef>
#include <fstream>
#include <utility>
#include <vector>

#include "cache/sha256.h"
#include "cache/store.h"

namespace smla::core {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = ".memos";  // hidden, as all that is no entry
constexpr std::size_t kMostMemos = 16;
constexpr std::size_t kChecksumDigits = 16;

struct Memo {
  std::string label, value;
};

std::string checksum(std::string_view label, std::string_view value) {
  return sha256_hex(fmt::format("{} {}", label, value)).substr(0, kChecksumDigits);
}

// "checksum label value"
std::optional<Memo> parse(const std::string& line) {
  const auto label_at = line.find(' ');
  if (label_at == std::string::npos) return std::nullopt;
  const auto value_at = line.find(' ', label_at + 1);
  if (value_at == std::string::npos) return std::nullopt;
  Memo memo{line.substr(label_at + 1, value_at - label_at - 1), line.substr(value_at + 1)};
  if (line.substr(0, label_at) != checksum(memo.label, memo.value)) return std::nullopt;
  return memo;
}

// Oldest first.
std::vector<Memo> memos_in(const fs::path& directory) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 16;  // of a file that we wrote; another is not read
  std::vector<Memo> memos;
  std::error_code error;
  const fs::path file = memo_file(directory);
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > kMostBytes || error) return memos;
  std::ifstream stream(file, std::ios::binary);
  for (std::string line; std::getline(stream, line);) {
    if (auto memo = parse(line)) memos.push_back(*std::move(memo));
  }
  return memos;
}

}  // namespace

fs::path memo_file(const fs::path& directory) {
  return directory / kFileName;
}

std::optional<std::string> find_memo(const CacheDirectories& directories, std::string_view label) {
  for (const auto& directory : {directories.user, directories.system}) {
    if (!directory) continue;
    for (auto& memo : memos_in(*directory)) {
      if (memo.label == label) return std::move(memo.value);
    }
  }
  return std::nullopt;
}

void keep_memo(const CacheDirectories& directories, std::string_view label, std::string_view value) {
  if (!directories.user) return;
  std::vector<Memo> memos = memos_in(*directories.user);
  std::erase_if(memos, [&](const Memo& memo) { return memo.label == label; });
  memos.push_back({std::string(label), std::string(value)});
  if (memos.size() > kMostMemos) memos.erase(memos.begin(), memos.end() - kMostMemos);
  std::string text;
  for (const auto& memo : memos) {
    text += fmt::format("{} {} {}\n", checksum(memo.label, memo.value), memo.label, memo.value);
  }
  replace_file(*directories.user, kFileName, text);  // where that fails, the next process finds out itself
}

}  // namespace smla::core
