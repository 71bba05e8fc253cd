// The compiler's identity without opening the compiler: a fresh process each, with copies of a fake NVRTC.
#include "plan/compiler_identity.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "cache/memo.h"
#include "catch.h"
#include "child.h"
#include "fake_compiler.h"
#include "temporary_directory.h"

using namespace smla::core;
using smla_test::contains;
using smla_test::fake_nvrtc_of_build;
using smla_test::install;
using smla_test::TemporaryDirectory;
using smla_test::write_in_place;

namespace {

namespace fs = std::filesystem;

constexpr const char* kOfBuild1 = "NVRTC 11.8 build 1111111111111111";
constexpr const char* kOfBuild2 = "NVRTC 11.8 build 2222222222222222";

// What a process says whose NVRTC is `library`; "opened " leads when it had to open it.
std::string identity_with(const fs::path& library, const fs::path& cache) {
  return smla_test::in_child([&]() -> std::string {
           setenv("SMLA_NVRTC", library.c_str(), 1);
           setenv("SMLA_CACHE_DIR", cache.c_str(), 1);
           const std::string identity = compiler_identity(cache_directories());
           return (smla_test::is_mapped(library.filename()) ? "opened " : "") + identity;
         })
      .output;
}

std::string opened(const std::string& identity) {
  return "opened " + identity;
}

// The same by name alone, which the dynamic linker's path resolves: that is fixed when a program starts, so
// another program is started.
std::string identity_on_path(const std::string& path, const fs::path& cache) {
  const std::string command = "env -u SMLA_NVRTC LD_LIBRARY_PATH='" + path + "' SMLA_CACHE_DIR='" +
                              cache.string() + "' '" + fs::read_symlink("/proc/self/exe").string() +
                              "' '[identity]'";
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string said;
  char bytes[4096];
  while (const std::size_t count = fread(bytes, 1, sizeof bytes, pipe)) said.append(bytes, count);
  REQUIRE(pclose(pipe) == 0);
  const auto from = said.find("<"), to = said.find(">");
  INFO(said);
  REQUIRE(to != std::string::npos);
  return said.substr(from + 1, to - from - 1);
}

}  // namespace

TEST_CASE("print the identity of the compiler on the path", "[.][identity]") {
  const std::string identity = compiler_identity(cache_directories());
  std::printf("<%s%s>\n", smla_test::is_mapped("libnvrtc.so") ? "opened " : "", identity.c_str());
}

TEST_CASE("the compiler is opened once, and later processes know its identity") {
  const TemporaryDirectory directory, cache;
  const auto library = directory.path() / "libfake.so";
  install(library, fake_nvrtc_of_build('1'));
  CHECK(identity_with(library, cache.path()) == opened(kOfBuild1));
  CHECK(identity_with(library, cache.path()) == kOfBuild1);
  CHECK(identity_with(directory.path() / "." / "libfake.so", cache.path()) ==
        opened(kOfBuild1));  // another search
}

TEST_CASE("another library under the same path has its own identity") {
  const TemporaryDirectory directory, cache;
  const auto library = directory.path() / "libfake.so";
  install(library, fake_nvrtc_of_build('1'));
  identity_with(library, cache.path());
  SECTION("written over it, of the same size") {
    install(library, fake_nvrtc_of_build('2'));
    CHECK(identity_with(library, cache.path()) == opened(kOfBuild2));
    CHECK(identity_with(library, cache.path()) == kOfBuild2);
  }
  SECTION("written over it a moment ago, perhaps within one tick of the file system's clock") {
    write_in_place(library, fake_nvrtc_of_build('2'));
    CHECK(identity_with(library, cache.path()) == opened(kOfBuild2));
    CHECK(identity_with(library, cache.path()) == opened(kOfBuild2));  // not to be trusted yet
    write_in_place(library, fake_nvrtc_of_build('1'));
    CHECK(identity_with(library, cache.path()) == opened(kOfBuild1));
  }
  SECTION("renamed to it, of the same size") {
    install(directory.path() / "new", fake_nvrtc_of_build('2'));
    fs::rename(directory.path() / "new", library);
    CHECK(identity_with(library, cache.path()) == opened(kOfBuild2));
  }
  SECTION("of the same size and time, by a symbolic link") {
    const auto first = directory.path() / "first.so", second = directory.path() / "second.so";
    install(first, fake_nvrtc_of_build('1'));
    install(second, fake_nvrtc_of_build('2'));
    fs::last_write_time(second, fs::last_write_time(first));
    const auto link = directory.path() / "link.so";
    const auto identity = [&] {
      const auto said = identity_with(link, cache.path());
      return said.substr(said.find("NVRTC"));
    };
    fs::create_symlink(first, link);
    CHECK(identity() == kOfBuild1);
    fs::remove(link);
    fs::create_symlink(second, link);
    CHECK(identity() == kOfBuild2);
  }
  SECTION("removed") {
    fs::remove(library);
    CHECK_THAT(identity_with(library, cache.path()), contains("NVRTC") && contains(library.string() + ": "));
  }
}

TEST_CASE("a library that the program has loaded counts, whatever lies on disk by now") {
  const TemporaryDirectory directory, cache;
  const auto library = directory.path() / "libfake.so";
  install(library, fake_nvrtc_of_build('2'));
  identity_with(library, cache.path());
  const auto child = smla_test::in_child([&]() -> std::string {
    const auto aside = directory.path() / "aside";
    fs::rename(library, aside);
    install(library, fake_nvrtc_of_build('1'));
    if (dlopen(library.c_str(), RTLD_NOW) == nullptr) return "not loaded";
    fs::rename(aside, library);
    setenv("SMLA_NVRTC", library.c_str(), 1);
    setenv("SMLA_CACHE_DIR", cache.path().c_str(), 1);
    return compiler_identity(cache_directories());
  });
  CHECK(child.output == kOfBuild1);
  CHECK(identity_with(library, cache.path()) == kOfBuild2);  // and that was not written down
}

TEST_CASE("a memo that is damaged or lies is passed over") {
  const TemporaryDirectory directory, cache;
  const auto library = directory.path() / "libfake.so";
  install(library, fake_nvrtc_of_build('1'));
  identity_with(library, cache.path());
  const auto file = memo_file(cache.path());
  std::string text = smla_test::bytes_of(file);
  REQUIRE(text.find("1111111111111111") != std::string::npos);
  text.replace(text.find("1111111111111111"), 16, "2222222222222222");
  write_in_place(file, text);
  CHECK(identity_with(library, cache.path()) == opened(kOfBuild1));
  CHECK(identity_with(library, cache.path()) == kOfBuild1);  // written anew
  write_in_place(file, "");
  CHECK(identity_with(library, cache.path()) == opened(kOfBuild1));
}

TEST_CASE("a compiler that the dynamic linker finds is remembered with the search that found it") {
  const TemporaryDirectory early, late, cache;
  const auto path = early.path().string() + ":" + late.path().string();
  install(late.path() / "libnvrtc.so.13", fake_nvrtc_of_build('1'));
  CHECK(identity_on_path(path, cache.path()) == opened(kOfBuild1));
  CHECK(identity_on_path(path, cache.path()) == kOfBuild1);
  SECTION("another one appears before it") {
    install(early.path() / "libnvrtc.so.13", fake_nvrtc_of_build('2'));
    CHECK(identity_on_path(path, cache.path()) == opened(kOfBuild2));
    CHECK(identity_on_path(path, cache.path()) == kOfBuild2);
  }
  SECTION("another path leads to another one") {
    install(early.path() / "libnvrtc.so.13", fake_nvrtc_of_build('2'));
    CHECK(identity_on_path(early.path().string(), cache.path()) == opened(kOfBuild2));
    CHECK(identity_on_path(late.path().string(), cache.path()) == kOfBuild1);  // the search that is known
  }
  SECTION("it is replaced") {
    install(late.path() / "libnvrtc.so.13", fake_nvrtc_of_build('2'));
    CHECK(identity_on_path(path, cache.path()) == opened(kOfBuild2));
  }
}
