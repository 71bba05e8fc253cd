// Small facts beside the entries of a cache directory.
#include "cache/memo.h"

#include <fstream>
#include <string>

#include "cache/inventory.h"
#include "catch.h"
#include "fake_compiler.h"
#include "temporary_directory.h"

using namespace smla::core;
using smla_test::bytes_of;
using smla_test::TemporaryDirectory;
using smla_test::write_in_place;

namespace {

CacheDirectories user_only(const TemporaryDirectory& directory) {
  CacheDirectories directories;
  directories.user = directory.path();
  return directories;
}

std::size_t files_in(const std::filesystem::path& directory) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

}  // namespace

TEST_CASE("a memo is found under its label until it is replaced") {
  const TemporaryDirectory directory;
  const auto directories = user_only(directory);
  CHECK_FALSE(find_memo(directories, "first"));
  keep_memo(directories, "first", "one value with blanks");
  keep_memo(directories, "second", "");
  CHECK(find_memo(directories, "first") == "one value with blanks");
  CHECK(find_memo(directories, "second") == "");
  CHECK_FALSE(find_memo(directories, "fir"));
  keep_memo(directories, "first", "another");
  CHECK(find_memo(directories, "first") == "another");
  CHECK(find_memo(directories, "second") == "");
  CHECK(files_in(directory.path()) == 1);  // no temporary stays
}

TEST_CASE("a damaged memo is as if it were not there, and its neighbours stay") {
  const TemporaryDirectory directory;
  const auto directories = user_only(directory);
  keep_memo(directories, "first", "value");
  keep_memo(directories, "second", "value");
  const auto file = memo_file(directory.path());
  const std::string whole = bytes_of(file);
  const std::size_t first_line = whole.find('\n');
  for (std::size_t at = 0; at < first_line; ++at) {
    CAPTURE(at);
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write_in_place(file, damaged);
    CHECK_FALSE(find_memo(directories, "first"));
    CHECK(find_memo(directories, "second") == "value");
  }
  for (std::size_t bytes = 0; bytes < first_line; ++bytes) {
    write_in_place(file, whole.substr(0, bytes));
    CHECK_FALSE(find_memo(directories, "first"));
  }
  write_in_place(file, std::string(1 << 20, ' '));
  CHECK_FALSE(find_memo(directories, "first"));
  keep_memo(directories, "first", "again");
  CHECK(find_memo(directories, "first") == "again");
}

TEST_CASE("the newest memos are kept, and the file stays small") {
  const TemporaryDirectory directory;
  const auto directories = user_only(directory);
  for (int i = 0; i < 40; ++i) keep_memo(directories, "label-" + std::to_string(i), "value");
  CHECK(find_memo(directories, "label-39"));
  CHECK(find_memo(directories, "label-24"));
  CHECK_FALSE(find_memo(directories, "label-23"));
}

TEST_CASE("the user's memo counts before the system's, and only the user's is written") {
  const TemporaryDirectory user, system;
  keep_memo(user_only(system), "label", "shipped");
  CacheDirectories both = user_only(user);
  both.system = system.path();
  CHECK(find_memo(both, "label") == "shipped");
  keep_memo(both, "label", "own");
  CHECK(find_memo(both, "label") == "own");
  CHECK(find_memo(user_only(system), "label") == "shipped");
}

TEST_CASE("without a directory nothing is remembered, and nothing fails") {
  keep_memo({}, "label", "value");
  CHECK_FALSE(find_memo({}, "label"));
  const TemporaryDirectory directory;
  std::filesystem::create_directory(memo_file(directory.path()));  // in the way
  keep_memo(user_only(directory), "label", "value");
  CHECK_FALSE(find_memo(user_only(directory), "label"));
  CHECK(files_in(directory.path()) == 1);
}

TEST_CASE("memos are no entries, and clearing a cache removes them") {
  const TemporaryDirectory directory;
  keep_memo(user_only(directory), "label", "value");
  CHECK(list_entries(directory.path()).empty());
  CHECK(verify_entries(directory.path()).empty());
  CHECK(trim(directory.path(), 0).files == 0);
  CHECK(find_memo(user_only(directory), "label"));
  CHECK(clear(directory.path()).files == 0);
  CHECK(files_in(directory.path()) == 0);
}
