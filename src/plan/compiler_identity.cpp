#include "plan/compiler_identity.h"

#include <fmt/format.h>

#include <string_view>

#include "cache/memo.h"
#include "cache/sha256.h"
#include "compiler/compiler.h"
#include "compiler/nvrtc_search.h"

namespace smla::core {
namespace {

constexpr char kBetween = '\t';  // of library, stamp and identity in a memo

// The identity in the memo, or an empty string when its library is another file by now.
std::string identity_in(std::string_view memo) {
  const auto stamp_at = memo.find(kBetween);
  const auto identity_at = memo.rfind(kBetween);
  if (stamp_at == std::string_view::npos || stamp_at == identity_at) return "";
  const std::string stamp = file_stamp(std::string(memo.substr(0, stamp_at)));
  if (stamp.empty() || memo.substr(stamp_at + 1, identity_at - stamp_at - 1) != stamp) return "";
  return std::string(memo.substr(identity_at + 1));
}

}  // namespace

std::string compiler_identity(const CacheDirectories& directories) {
  const CompilerSearch search = compiler_search();
  if (search.loaded) return compiler_version().identity();
  const std::string label = "compiler-" + sha256_hex(search.text);
  if (const auto memo = find_memo(directories, label)) {
    if (auto identity = identity_in(*memo); !identity.empty()) return identity;
  }
  const CompilerVersion version = compiler_version();
  const std::string stamp = file_stamp(version.library);
  const std::string memo =
      fmt::format("{}{}{}{}{}", version.library, kBetween, stamp, kBetween, version.identity());
  const bool unchanged = compiler_search().text == search.text;  // nobody installed one in between
  if (unchanged && !stamp.empty() && is_settled(version.library) && memo.find('\n') == std::string::npos)
    keep_memo(directories, label, memo);
  return version.identity();
}

}  // namespace smla::core
