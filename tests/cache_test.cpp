#include "cache/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/error.h"
#include "cache/store.h"
#include "cache_fixture.h"
#include "catch.h"
#include "child.h"

using namespace smla::core;
using namespace smla_test;

TEST_CASE("a key is a canonical text with a name for people") {
  const auto key = key_of("sparse-mla-bwd-h64-sm_90a");
  REQUIRE(key.text ==
          "schema: 1\nsource-sha256: aa\narch: sm_90a\ncompiler: NVRTC 13.0\noptions: -std=c++17\n");
  REQUIRE(key.file_name() == "sparse-mla-bwd-h64-sm_90a-" + key.hash().substr(0, 16) + ".smla");
  REQUIRE(key_value(key, "compiler") == "NVRTC 13.0");
  REQUIRE(key_value(key, "nothing") == std::nullopt);
  REQUIRE(key_of(std::string(400, 'x')).file_name().size() < 230);
  REQUIRE(key_of("../escape").file_name().find('/') == std::string::npos);
  REQUIRE_THROWS_AS(make_key("", {}), Error);
  REQUIRE_THROWS_WITH(make_key("s", {{"a", "1"}, {"a", "2"}}), contains("a: 2"));
  REQUIRE_THROWS_AS(make_key("s", {{"a", "1\nb: 2"}}), Error);
  REQUIRE_THROWS_AS(make_key("s", {{"a:b", "1"}}), Error);
}

TEST_CASE("an entry survives its file") {
  const CacheEntry entry{key_of("kernel"), cubin_of(5000)};
  REQUIRE(entry_from_bytes(to_bytes(entry)) == entry);
  const TemporaryDirectory directory;
  REQUIRE(store(directory.path(), entry) == "");
  const auto file = directory.path() / entry.key.file_name();
  REQUIRE(read_entry(file) == entry);
  auto header = read_entry_header(file);
  REQUIRE(header.cubin.image.empty());
  header.cubin.image = entry.cubin.image;
  REQUIRE(header == entry);
}

TEST_CASE("no damaged byte and no other length of an entry goes unnoticed") {
  const std::string bytes = to_bytes({key_of("kernel"), cubin_of(100)});
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    CAPTURE(at);
    REQUIRE_THROWS_AS(entry_from_bytes(damaged), Error);
    REQUIRE_THROWS_AS(entry_from_bytes(std::string_view(bytes).substr(0, at)), Error);
  }
  REQUIRE_THROWS_AS(entry_from_bytes(bytes + "x"), Error);
  REQUIRE_THROWS_WITH(entry_from_bytes("a text of someone else"), contains("no kernel cache entry"));
}

TEST_CASE("a kernel is built once, stored as one file, and found by the next process") {
  const TemporaryDirectory directory;
  const auto directories = user_directory(directory.path() / "made" / "here");
  const auto key = key_of("kernel");
  Builder builder;
  REQUIRE_FALSE(find(directories, key).has_value());
  const auto built = builder(directories, key);
  REQUIRE(built.source == CacheSource::built);
  REQUIRE(built.entry == CacheEntry{key, cubin_of()});
  const auto found = builder(directories, key);
  REQUIRE(found.source == CacheSource::user_tier);
  REQUIRE(found.entry == built.entry);
  REQUIRE(find(directories, key)->entry == built.entry);
  REQUIRE(builder.builds == 1);
  REQUIRE(names_in(*directories.user) == std::vector<std::string>{key.file_name()});
  struct stat facts {};
  REQUIRE(stat(directories.user->c_str(), &facts) == 0);
  REQUIRE((facts.st_mode & 0777) == 0700);
}

TEST_CASE("C45: a change of source, option or compiler is a new entry, and its return a hit") {
  const TemporaryDirectory directory;
  const auto directories = user_directory(directory.path());
  Builder builder;
  const auto original = key_of("kernel");
  builder(directories, original);
  builder(directories, key_of("kernel", "NVRTC 13.0", "ab"));
  REQUIRE(builder.builds == 2);
  builder(directories, key_of("kernel", "NVRTC 13.1"));
  REQUIRE(builder.builds == 3);
  builder(directories, key_of("kernel", "NVRTC 13.0", "aa", "-std=c++17 -lineinfo"));
  REQUIRE(builder.builds == 4);
  REQUIRE(builder(directories, original).source == CacheSource::user_tier);
  REQUIRE(builder.builds == 4);
  REQUIRE(names_in(directory.path()).size() == 4);
}

TEST_CASE("C43: a truncated, foreign or corrupt entry is one warning, rebuilt and replaced") {
  const TemporaryDirectory directory;
  const auto directories = user_directory(directory.path());
  const auto key = key_of("kernel");
  const auto file = directory.path() / key.file_name();
  Builder builder;
  builder(directories, key);
  const std::string whole = content_of(file);
  const auto other_key = key_of("kernel", "NVRTC 13.1");
  Cubin other_arch = cubin_of();
  other_arch.arch = "sm_80";

  const std::pair<std::string, std::string> cases[] = {
      {"", "empty"},
      {whole.substr(0, 100), "100 bytes"},
      {std::string(4000, '\x5a'), "no kernel cache entry"},
      {whole.substr(0, whole.size() - 500) + std::string(500, 'z'), "checksum"},
      {to_bytes({other_key, cubin_of()}), "another key"},
      {to_bytes({key, other_arch}), "sm_80"},
  };
  for (const auto& [content, complaint] : cases) {
    CAPTURE(complaint);
    write_file(file, content);
    builder.builds = 0;
    const Log log;
    const auto result = builder(directories, key);
    REQUIRE(result.source == CacheSource::built);
    REQUIRE(result.entry.cubin == cubin_of());
    REQUIRE(builder.builds == 1);
    REQUIRE(log.warnings().size() == 1);
    REQUIRE_THAT(log.text(), contains(complaint));
    REQUIRE_THAT(log.text(), contains(file.string()));
    REQUIRE(content_of(file) == whole);
    REQUIRE(builder(directories, key).source == CacheSource::user_tier);
    REQUIRE(log.warnings().size() == 1);
  }
  SECTION("a pipe under its name does not hang") {
    std::filesystem::remove(file);
    REQUIRE(mkfifo(file.c_str(), 0600) == 0);
    const Log log;
    REQUIRE(builder(directories, key).source == CacheSource::built);
    REQUIRE(log.warnings().size() == 1);
    REQUIRE(content_of(file) == whole);
  }
}

TEST_CASE("the system tier comes first and is never written") {
  const TemporaryDirectory system, user;
  auto directories = user_directory(user.path());
  directories.system = system.path();
  Builder builder;
  const auto shipped = key_of("shipped");
  REQUIRE(store(system.path(), {shipped, cubin_of()}) == "");
  REQUIRE(builder(directories, shipped).source == CacheSource::system_tier);
  REQUIRE(builder(directories, key_of("other")).source == CacheSource::built);
  REQUIRE(names_in(system.path()) == std::vector<std::string>{shipped.file_name()});
  REQUIRE(names_in(user.path()) == std::vector<std::string>{key_of("other").file_name()});

  write_file(system.path() / shipped.file_name(), "damaged");
  const Log log;
  REQUIRE(builder(directories, shipped).source == CacheSource::built);
  REQUIRE(builder(directories, shipped).source == CacheSource::user_tier);
  REQUIRE(log.warnings().size() == 1);
  REQUIRE(content_of(system.path() / shipped.file_name()) == "damaged");
}

TEST_CASE("without a compiler's version the newest compiler's entry is found") {
  const TemporaryDirectory directory;
  const auto directories = user_directory(directory.path());
  const auto asked = make_key(
      "kernel", {{"schema", "1"}, {"source-sha256", "aa"}, {"arch", "sm_90a"}, {"options", "-std=c++17"}});
  REQUIRE_FALSE(find_any(directories, asked, "compiler").has_value());
  int seed = 0;
  for (const char* version : {"NVRTC 12.9", "NVRTC 12.10", "NVRTC 12.8"}) {
    REQUIRE(store(directory.path(), {key_of("kernel", version), cubin_of(100, ++seed)}) == "");
  }
  REQUIRE(store(directory.path(), {key_of("kernel", "NVRTC 14.0", "another source"), cubin_of()}) == "");
  REQUIRE(store(directory.path(), {key_of("kernel-too", "NVRTC 14.0"), cubin_of()}) == "");
  const auto found = find_any(directories, asked, "compiler");
  REQUIRE(found.has_value());
  REQUIRE(key_value(found->entry.key, "compiler") == "NVRTC 12.10");
  REQUIRE(found->entry.cubin.image == cubin_of(100, 2).image);
  REQUIRE(find_any(directories, key_of("kernel", "unknown"), "compiler")->entry == found->entry);
}

TEST_CASE("threads of a process share one build, and its failure") {
  const TemporaryDirectory directory;
  const auto key = key_of("kernel");
  std::atomic<int> builds = 0, failures = 0, waiting = 0;
  const auto ask_at_once = [&](const CacheDirectories& directories, bool succeed) {
    builds = failures = waiting = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        try {
          ++waiting;
          find_or_build(directories, key, [&] {
            while (waiting < 8) std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            ++builds;
            if (!succeed) fail(Status::compile_failed, "of this test");
            return cubin_of();
          });
        } catch (const Error& error) {
          if (error.status() == Status::compile_failed) ++failures;
        }
      });
    }
    for (auto& thread : threads) thread.join();
  };
  const auto directories = user_directory(directory.path());
  ask_at_once(directories, false);
  REQUIRE(builds == 1);
  REQUIRE(failures == 8);
  REQUIRE(names_in(directory.path()).empty());
  ask_at_once(directories, true);
  REQUIRE(builds == 1);
  REQUIRE(failures == 0);
  ask_at_once({}, true);  // in memory only
  REQUIRE(builds == 1);
}

TEST_CASE("C41: 16 processes with a cold shared directory build a kernel once a round") {
  constexpr int kProcesses = 16, kRounds = 20;
  const TemporaryDirectory directory, tally;
  const auto directories = user_directory(directory.path());
  const auto gate = tally.path() / "gate";
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const auto key = key_of("kernel-" + std::to_string(round));
    write_file(gate, "");
    const int gate_lock = open(gate.c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(flock(gate_lock, LOCK_EX) == 0);  // all wait at the gate, then start together
    std::vector<Child> children;
    for (int i = 0; i < kProcesses; ++i) {
      children.emplace_back([&]() -> std::string {
        const int mine = open(gate.c_str(), O_RDONLY | O_CLOEXEC);
        flock(mine, LOCK_SH);
        bool built = false;
        const auto result = find_or_build(directories, key, [&] {
          built = true;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return cubin_of(20000, round);
        });
        if (result.entry != CacheEntry{key, cubin_of(20000, round)}) return "wrong";
        return built ? "built" : "found";
      });
    }
    flock(gate_lock, LOCK_UN);  // closing would not do: the children have it open too
    close(gate_lock);
    int built = 0;
    for (auto& child : children) {
      const auto result = child.wait();
      REQUIRE(result.exit_code == 0);
      REQUIRE((result.output == "built" || result.output == "found"));
      built += result.output == "built";
    }
    REQUIRE(built == 1);
    REQUIRE(names_in(directory.path()).size() ==
            static_cast<std::size_t>(round) + 1);  // no temporary, no lock
  }
}

TEST_CASE("a killed builder leaves nothing that holds up or misleads the next") {
  const TemporaryDirectory directory;
  const auto directories = user_directory(directory.path());
  const auto key = key_of("kernel");
  Child child([&]() -> std::string {
    find_or_build(directories, key, []() -> Cubin {
      raise(SIGKILL);
      return {};
    });
    return "";
  });
  REQUIRE(child.wait().exit_code == 128 + SIGKILL);
  REQUIRE(std::filesystem::exists(lock_file(directory.path(), key)));
  Builder builder;
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(builder(directories, key).source == CacheSource::built);
  REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  REQUIRE(names_in(directory.path()) == std::vector<std::string>{key.file_name()});
}

TEST_CASE("a waiter takes over when the holder is killed, and builds anyway when it stays too long") {
  const TemporaryDirectory directory;
  auto directories = user_directory(directory.path());
  const auto key = key_of("kernel");
  const auto holding = directory.path() / "holding";
  Child holder([&]() -> std::string {
    find_or_build(directories, key, [&]() -> Cubin {
      write_file(holding, "");
      while (true) pause();
    });
    return "";
  });
  while (!std::filesystem::exists(holding)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Builder builder;
  const Log log;
  const auto start = std::chrono::steady_clock::now();
  SECTION("killed") {
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      kill(holder.pid(), SIGKILL);
    });
    REQUIRE(builder(directories, key).source == CacheSource::built);
    killer.join();
    REQUIRE(log.notes().empty());
  }
  SECTION("too long") {
    directories.lock_wait = std::chrono::milliseconds(150);
    REQUIRE(builder(directories, key).source == CacheSource::built);
    REQUIRE(log.notes().size() == 1);
    REQUIRE_THAT(log.notes().front(), contains("0.15 s"));
    REQUIRE(std::filesystem::exists(lock_file(directory.path(), key)));  // the holder's own
    kill(holder.pid(), SIGKILL);
  }
  const auto waited = std::chrono::steady_clock::now() - start;
  REQUIRE(waited >= std::chrono::milliseconds(100));
  REQUIRE(waited < std::chrono::seconds(10));
  REQUIRE(holder.wait().exit_code == 128 + SIGKILL);
  REQUIRE(find(directories, key).has_value());
}

TEST_CASE("C50: TMPDIR on another file system plays no part") {
  const TemporaryDirectory directory, elsewhere("/dev/shm");
  const auto directories = user_directory(directory.path());
  const auto child = in_child([&]() -> std::string {
    setenv("TMPDIR", elsewhere.path().c_str(), 1);
    Builder builder;
    const Log log;
    builder(directories, key_of("kernel"));
    return log.text() + std::to_string(names_in(elsewhere.path()).size());
  });
  REQUIRE(child.output == "0");
  REQUIRE(find(directories, key_of("kernel")).has_value());
}

TEST_CASE("a full disk costs a warning, not the kernel") {
  if (geteuid() != 0) SKIP("only root may mount a small file system");
  const TemporaryDirectory mount_point;
  if (mount("tmpfs", mount_point.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
    SKIP("mounting is not permitted");
  }
  struct Unmount {
    const std::filesystem::path& path;
    ~Unmount() { umount2(path.c_str(), MNT_DETACH); }
  } unmount{mount_point.path()};
  const auto directories = user_directory(mount_point.path());
  Builder small, large{.builds = 0, .bytes = 200000};
  const Log log;
  small(directories, key_of("small"));
  const auto result = large(directories, key_of("large"));
  REQUIRE(result.source == CacheSource::built);
  REQUIRE(result.entry.cubin == cubin_of(200000));
  REQUIRE(log.warnings().size() == 1);
  REQUIRE_THAT(log.text(), contains("No space left") && contains("SMLA_CACHE_DIR"));
  REQUIRE(names_in(mount_point.path()) == std::vector<std::string>{key_of("small").file_name()});
  REQUIRE(small(directories, key_of("small")).source == CacheSource::user_tier);
}
