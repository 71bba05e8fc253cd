#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "cache/directories.h"
#include "cache_fixture.h"
#include "catch.h"
#include "child.h"

using namespace smla::core;
using namespace smla_test;

namespace {

namespace fs = std::filesystem;

constexpr unsigned kNobody = 65534;

using Variables = std::vector<std::pair<const char*, std::string>>;

// What a process with just these variables (of those that matter here) does: `work(directories, log)`.
template <class Work>
std::string with_variables(const Variables& variables, Work work, unsigned user = 0) {
  return in_child([&]() -> std::string {
           for (const char* name : {"SMLA_CACHE_DIR", "SMLA_SYSTEM_CACHE_DIR", "SMLA_CACHE_MAX_BYTES",
                                    "XDG_CACHE_HOME", "HOME"}) {
             unsetenv(name);
           }
           for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
           if (user != 0 && (setgid(user) != 0 || setuid(user) != 0)) return "cannot become another user";
           const Log log;
           const auto directories = cache_directories();
           return work(directories, log);
         })
      .output;
}

// "user directory or -|number of warnings|warnings"
std::string chosen(const Variables& variables, unsigned user = 0) {
  return with_variables(
      variables,
      [](const CacheDirectories& directories, const Log& log) {
        cache_directories();  // says nothing a second time
        return (directories.user ? directories.user->string() : "-") + "|" +
               std::to_string(log.warnings().size()) + "|" + log.text();
      },
      user);
}

void set_mode(const fs::path& path, mode_t mode) {
  REQUIRE(chmod(path.c_str(), mode) == 0);
}

mode_t mode_of(const fs::path& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
}

void give(const fs::path& path, unsigned user) {
  REQUIRE(chown(path.c_str(), user, user) == 0);
}

}  // namespace

TEST_CASE("C48: the directory is SMLA_CACHE_DIR's, else XDG's, else HOME's, and private") {
  const TemporaryDirectory root;
  const std::string home = root.path() / "home", xdg = root.path() / "xdg",
                    named = root.path() / "named" / "deep";
  fs::create_directory(home);
  REQUIRE(chosen({{"HOME", home}}) == home + "/.cache/smla|0|");
  REQUIRE(mode_of(home + "/.cache/smla") == 0700);
  REQUIRE(chosen({{"HOME", home}, {"XDG_CACHE_HOME", xdg}}) == xdg + "/smla|0|");
  REQUIRE(mode_of(xdg + "/smla") == 0700);
  REQUIRE(chosen({{"HOME", home}, {"XDG_CACHE_HOME", xdg}, {"SMLA_CACHE_DIR", named}}) == named + "|0|");
  REQUIRE(mode_of(named) == 0700);
  REQUIRE(chosen({{"HOME", home}, {"XDG_CACHE_HOME", "relative"}}) == home + "/.cache/smla|0|");
  REQUIRE(chosen({{"HOME", home}, {"SMLA_CACHE_DIR", ""}}) == home + "/.cache/smla|0|");
}

TEST_CASE("C48: without any directory kernels stay in memory, and one message names the variable") {
  const auto answer = chosen({});
  REQUIRE_THAT(answer, contains("-|1|smla: compiled kernels are kept in memory only"));
  REQUIRE_THAT(answer, contains("SMLA_CACHE_DIR"));
  const TemporaryDirectory root;
  write_file(root.path() / "file", "");
  REQUIRE_THAT(chosen({{"HOME", (root.path() / "file").string()}}), contains("-|1|"));
  REQUIRE_THAT(chosen({{"SMLA_CACHE_DIR", (root.path() / "file").string()}}),
               contains("-|1|") && contains("there is a file of that name"));
}

TEST_CASE(
    "C49: a found directory that others can write is refused, one named on purpose is used with a warning") {
  const TemporaryDirectory xdg;
  const fs::path directory = xdg.path() / "smla";
  fs::create_directory(directory);
  for (const mode_t mode : {mode_t{0777}, mode_t{0775}, mode_t{01777}}) {
    CAPTURE(mode);
    set_mode(directory, mode);
    const auto refused = chosen({{"XDG_CACHE_HOME", xdg.path()}});
    REQUIRE_THAT(refused, contains("-|1|") && contains("others can write it") && contains("SMLA_CACHE_DIR"));
    REQUIRE_THAT(chosen({{"SMLA_CACHE_DIR", directory}}),
                 contains(directory.string() + "|1|") && contains("others can write it"));
  }
  set_mode(directory, 0755);
  REQUIRE(chosen({{"XDG_CACHE_HOME", xdg.path()}}) == directory.string() + "|0|");
  set_mode(xdg.path(), 0777);
  REQUIRE_THAT(chosen({{"XDG_CACHE_HOME", xdg.path()}}), contains("-|1|") && contains("others can write"));
  set_mode(xdg.path(), 01777);
  REQUIRE(chosen({{"XDG_CACHE_HOME", xdg.path()}}) == directory.string() + "|0|");
}

TEST_CASE("C49: a found directory of another user is refused, one named on purpose is used with a warning") {
  if (geteuid() != 0) SKIP("only root may give a directory away");
  const TemporaryDirectory xdg;
  const fs::path directory = xdg.path() / "smla";
  fs::create_directory(directory);
  give(directory, kNobody);
  REQUIRE_THAT(chosen({{"XDG_CACHE_HOME", xdg.path()}}),
               contains("-|1|") && contains("belongs to user 65534"));
  REQUIRE_THAT(chosen({{"SMLA_CACHE_DIR", directory}}), contains(directory.string() + "|1|"));
  give(directory, 0);
  give(xdg.path(), kNobody);
  REQUIRE_THAT(chosen({{"XDG_CACHE_HOME", xdg.path()}}),
               contains("-|1|") && contains("belongs to user 65534"));
  // For that user it is root's directory that is not its own.
  REQUIRE_THAT(chosen({{"XDG_CACHE_HOME", xdg.path()}}, kNobody), contains("-|1|"));
}

TEST_CASE("C48: a directory that cannot be made or written leaves kernels in memory, with one message") {
  if (geteuid() != 0) SKIP("only root may become another user");
  const TemporaryDirectory root;
  set_mode(root.path(), 0755);
  REQUIRE_THAT(chosen({{"HOME", root.path()}}, kNobody),
               contains("-|1|") && contains("Permission denied") && contains("SMLA_CACHE_DIR"));

  const auto build_twice = [](const CacheDirectories& directories, const Log& log) {
    Builder builder;
    const auto shipped = find(directories, key_of("shipped"));
    builder(directories, key_of("one"));
    builder(directories, key_of("two"));
    return std::to_string(shipped.has_value()) + "|" + std::to_string(builder.builds) + "|" +
           std::to_string(log.warnings().size()) + "|" + log.text();
  };
  SECTION("a read-only directory is still read") {
    Builder builder;
    builder(user_directory(root.path()), key_of("shipped"));
    set_mode(root.path(), 0755);
    const auto answer = with_variables({{"SMLA_CACHE_DIR", root.path()}}, build_twice, kNobody);
    REQUIRE_THAT(answer, contains("1|2|1|") && contains("cannot be written") && contains("SMLA_CACHE_DIR"));
    REQUIRE(names_in(root.path()).size() == 1);
  }
  SECTION("the variable wins over a HOME that is of no use") {
    const TemporaryDirectory named;
    give(named.path(), kNobody);
    const auto answer =
        with_variables({{"HOME", root.path()}, {"SMLA_CACHE_DIR", named.path()}}, build_twice, kNobody);
    REQUIRE(answer == "0|2|0|");
    REQUIRE(names_in(named.path()).size() == 2);
  }
}

TEST_CASE("a system directory is named, and said to be missing when it is") {
  const TemporaryDirectory system, user;
  const auto system_of = [&](const std::string& named) {
    return with_variables({{"SMLA_CACHE_DIR", user.path()}, {"SMLA_SYSTEM_CACHE_DIR", named}},
                          [](const CacheDirectories& directories, const Log& log) {
                            return (directories.system ? directories.system->string() : "-") + "|" +
                                   log.text();
                          });
  };
  REQUIRE(system_of(system.path()) == system.path().string() + "|");
  REQUIRE(system_of("") == "-|");
  REQUIRE_THAT(system_of("/nowhere/at/all"),
               contains("-|") && contains("SMLA_SYSTEM_CACHE_DIR = /nowhere/at/all"));
  set_mode(system.path(), 0777);
  REQUIRE_THAT(system_of(system.path()),
               contains(system.path().string() + "|") && contains("others can write it (mode 777)"));
}

TEST_CASE("SMLA_CACHE_MAX_BYTES is a number of bytes, 1 GiB by default") {
  const TemporaryDirectory user;
  const auto limit = [&](const Variables& variables) {
    auto all = variables;
    all.emplace_back("SMLA_CACHE_DIR", user.path());
    return with_variables(all, [](const CacheDirectories& directories, const Log& log) {
      return std::to_string(directories.max_bytes) + "|" + log.text();
    });
  };
  REQUIRE(limit({}) == "1073741824|");
  REQUIRE(limit({{"SMLA_CACHE_MAX_BYTES", "1000"}}) == "1000|");
  for (const char* wrong : {"1G", "-1", "99999999999999999999999"}) {
    REQUIRE_THAT(limit({{"SMLA_CACHE_MAX_BYTES", wrong}}),
                 contains("1073741824|") && contains("SMLA_CACHE_MAX_BYTES = " + std::string(wrong)));
  }
}
