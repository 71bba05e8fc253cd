#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "cache/inventory.h"
#include "cache_fixture.h"
#include "catch.h"

using namespace smla::core;
using namespace smla_test;

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

void set_age(const fs::path& file, std::chrono::seconds age) {
  fs::last_write_time(file, fs::file_time_type::clock::now() - age);
}

bool holds(const fs::path& directory, const CacheKey& key) {
  return fs::exists(directory / key.file_name());
}

CacheKey stored(const fs::path& directory, const CacheKey& key, std::size_t bytes = 1000) {
  REQUIRE(store(directory, {key, cubin_of(bytes)}) == "");
  return key;
}

}  // namespace

TEST_CASE("the least recently used entries go when the cap is passed, never the newest") {
  const TemporaryDirectory directory;
  auto directories = user_directory(directory.path());
  Builder builder{.builds = 0, .bytes = 10000};
  const auto a = key_of("a"), b = key_of("b"), c = key_of("c"), d = key_of("d");
  for (const auto& key : {a, b, c}) builder(directories, key);
  set_age(directory.path() / a.file_name(), 300s);
  set_age(directory.path() / b.file_name(), 200s);
  set_age(directory.path() / c.file_name(), 100s);
  REQUIRE(find(directories, a).has_value());  // used just now
  directories.max_bytes = 35000;              // three entries of 10,000 bytes and their texts
  builder(directories, d);
  REQUIRE(holds(directory.path(), a));
  REQUIRE_FALSE(holds(directory.path(), b));
  REQUIRE(holds(directory.path(), c));
  REQUIRE(holds(directory.path(), d));
  directories.max_bytes = 0;
  builder(directories, b);
  REQUIRE(names_in(directory.path()) == std::vector<std::string>{b.file_name()});
}

TEST_CASE("what dead processes left is swept at the next write, what the living use stays") {
  const TemporaryDirectory directory;
  const auto temporary = [&](const std::string& name) {
    return directory.path() / ("." + name + ".smla.1.tmp");
  };
  const auto lock = directory.path() / ".dead.smla.lock";
  const auto stranger = directory.path() / ".gitignore";
  const auto failures = directory.path() / "failed";
  fs::create_directory(failures);
  const std::vector<fs::path> old_files = {temporary("dead"), temporary("living"), lock, stranger,
                                           failures / "recent.cu"};
  for (const auto& file : old_files) {
    write_file(file, "x");
    set_age(file, 3600s);
  }
  write_file(temporary("fresh"), "x");
  write_file(failures / "old.cu", "x");
  set_age(failures / "old.cu", 8 * 24h);
  const int living = open(temporary("living").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(flock(living, LOCK_EX) == 0);

  Builder builder;
  builder(user_directory(directory.path()), key_of("kernel"));
  REQUIRE_FALSE(fs::exists(temporary("dead")));
  REQUIRE_FALSE(fs::exists(lock));
  REQUIRE_FALSE(fs::exists(failures / "old.cu"));
  REQUIRE(fs::exists(temporary("living")));
  REQUIRE(fs::exists(temporary("fresh")));
  REQUIRE(fs::exists(stranger));
  REQUIRE(fs::exists(failures / "recent.cu"));

  SECTION("clear takes all but the living and strangers") {
    const auto removed = clear(directory.path());
    REQUIRE(removed.files == 3);  // the entry, the fresh temporary, the recent failure
    REQUIRE(removed.bytes > 1000);
    REQUIRE(fs::exists(temporary("living")));
    REQUIRE(fs::exists(stranger));
    REQUIRE(names_in(failures).empty());
    REQUIRE(list_entries(directory.path()).empty());
  }
  close(living);
}

TEST_CASE("entries are listed with what their headers say") {
  const TemporaryDirectory directory;
  REQUIRE(list_entries(directory.path() / "nowhere").empty());
  const auto key = stored(directory.path(), key_of("b"));
  write_file(directory.path() / "a-0123.smla", "damaged");
  set_age(directory.path() / key.file_name(), 3600s);
  const auto listings = list_entries(directory.path());
  REQUIRE(listings.size() == 2);
  REQUIRE_THAT(listings[0].fault, contains("no kernel cache entry"));
  REQUIRE(listings[1].fault == "");
  REQUIRE(listings[1].entry.key == key);
  REQUIRE(listings[1].entry.cubin.kernels == cubin_of().kernels);
  REQUIRE(listings[1].bytes == fs::file_size(directory.path() / key.file_name()));
  const auto age = std::chrono::system_clock::now() - listings[1].last_use;
  REQUIRE((age > 3590s && age < 3700s));
}

TEST_CASE("verification reads every entry to its end and knows its name") {
  const TemporaryDirectory directory;
  const auto whole = stored(directory.path(), key_of("whole"));
  const auto damaged = stored(directory.path(), key_of("damaged"));
  std::string bytes = content_of(directory.path() / damaged.file_name());
  bytes[bytes.size() - 40] ^= 1;  // in the image: a header alone does not show it
  write_file(directory.path() / damaged.file_name(), bytes);
  fs::copy(directory.path() / whole.file_name(), directory.path() / "another-0123.smla");
  const auto verdicts = verify_entries(directory.path());
  REQUIRE(verdicts.size() == 3);
  REQUIRE_THAT(verdicts[0].fault, contains("another key"));
  REQUIRE_THAT(verdicts[1].fault, contains("checksum"));
  REQUIRE(verdicts[2].fault == "");
}

TEST_CASE("trimming to a size removes the oldest first") {
  const TemporaryDirectory directory;
  const auto old = stored(directory.path(), key_of("old"), 5000);
  const auto recent = stored(directory.path(), key_of("recent"), 5000);
  set_age(directory.path() / old.file_name(), 60s);
  REQUIRE(trim(directory.path(), 1 << 20).files == 0);
  const auto removed = trim(directory.path(), 8000);
  REQUIRE(removed.files == 1);
  REQUIRE(removed.bytes > 5000);
  REQUIRE(holds(directory.path(), recent));
  REQUIRE(trim(directory.path(), 0).files == 1);
  REQUIRE(names_in(directory.path()).empty());
}

TEST_CASE("a miss is explained by the lines that differ from the closest entry") {
  const TemporaryDirectory system, user;
  auto directories = user_directory(user.path());
  directories.system = system.path();
  const auto wanted = key_of("kernel", "NVRTC 13.0", "aa", "-O3");

  REQUIRE(explain_miss(wanted, directories).closest.empty());
  stored(user.path(), key_of("unlike", "NVRTC 13.0", "bb", "-O3"));
  auto explanation = explain_miss(wanted, directories);
  REQUIRE(explanation.closest.empty());
  REQUIRE_THAT(explanation.sentence, contains("No entry"));

  const auto two_lines = stored(user.path(), key_of("kernel", "NVRTC 12.9", "cc", "-O3"));
  explanation = explain_miss(wanted, directories);
  REQUIRE(explanation.closest == user.path() / two_lines.file_name());
  REQUIRE(explanation.differences.size() == 2);

  const auto one_line = stored(system.path(), key_of("another name", "NVRTC 12.9", "aa", "-O3"));
  explanation = explain_miss(wanted, directories);
  REQUIRE_FALSE(explanation.present);
  REQUIRE(explanation.closest == system.path() / one_line.file_name());
  REQUIRE(explanation.differences.size() == 1);
  REQUIRE(explanation.differences[0].label == "compiler");
  REQUIRE(explanation.differences[0].wanted == "NVRTC 13.0");
  REQUIRE(explanation.differences[0].found == "NVRTC 12.9");
  REQUIRE_THAT(explanation.sentence, contains("differs in compiler: \"NVRTC 13.0\" is wanted"));

  write_file(user.path() / wanted.file_name(), "damaged");
  explanation = explain_miss(wanted, directories);
  REQUIRE_THAT(explanation.fault, contains("no kernel cache entry"));
  REQUIRE_FALSE(explanation.present);

  stored(user.path(), wanted);
  explanation = explain_miss(wanted, directories);
  REQUIRE(explanation.present);
  REQUIRE(explanation.closest == user.path() / wanted.file_name());
  REQUIRE(explanation.differences.empty());
}
