// From a problem to machine code, with the real compiler: memory, disk, SMLA_JIT=off, a serving image without
// NVRTC.
#include "plan/prepare.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "child.h"
#include "compiler/compiler.h"
#include "fake_compiler.h"
#include "generator/generator.h"
#include "plan/manifest.h"
#include "temporary_directory.h"

using namespace smla::core;
using smla_test::contains;
using smla_test::in_child;
using smla_test::TemporaryDirectory;

namespace {

const Arch kArch = {80, false};  // its kernels compile fastest
const Problem kProblem = {.heads = 16, .d_tail = 0};

Config config() {
  return choose_config(kProblem, kArch).config;
}

void need_compiler() {
  try {
    compiler_version();
  } catch (const Error&) {
    SKIP("no NVRTC");
  }
}

// Filled once by a child, so that this process's memory tier stays empty.
const std::filesystem::path& warm_directory() {
  static const TemporaryDirectory directory;
  static const bool filled = [] {
    const auto child = in_child([]() -> std::string {
      setenv("SMLA_CACHE_DIR", directory.path().c_str(), 1);
      const auto prepared = prepare(kProblem, config(), kArch);
      return std::string(name(prepared->source)) + " " + std::to_string(prepared->kernels.size());
    });
    INFO(child.output);
    REQUIRE(child.exit_code == 0);
    REQUIRE(child.output.rfind("built ", 0) == 0);
    return true;
  }();
  REQUIRE(filled);
  return directory.path();
}

std::string prepared_from() {
  return std::string(name(prepare(kProblem, config(), kArch)->source));
}

// Of all threads of this process.
double processor_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// How a fresh process with this environment gets the kernels.
std::string in_process(const std::vector<std::pair<std::string, std::string>>& environment) {
  return in_child([&]() -> std::string {
           for (const auto& [variable, value] : environment) setenv(variable.c_str(), value.c_str(), 1);
           return prepared_from();
         })
      .output;
}

}  // namespace

TEST_CASE("kernels are compiled once and then found on disk by other processes") {
  need_compiler();
  const std::string directory = warm_directory().string();
  CHECK(in_process({{"SMLA_CACHE_DIR", directory}}) == "user cache");
  const TemporaryDirectory empty;
  CHECK(in_process({{"SMLA_CACHE_DIR", empty.path()}, {"SMLA_SYSTEM_CACHE_DIR", directory}}) ==
        "system cache");
}

TEST_CASE("prepare from disk and say how", "[.][warm]") {
  const double begin = processor_milliseconds();
  const auto from = prepared_from();
  const double took = processor_milliseconds() - begin;
  std::printf("<%s, %s> %f\n", from.c_str(),
              smla_test::is_mapped("libnvrtc") ? "NVRTC opened" : "NVRTC closed", took);
}

// Each run is a program of its own: a child by fork alone would inherit the NVRTC of its parent.
TEST_CASE("a warm disk hit takes less than 20 ms of a fresh process, and does not open NVRTC") {
  need_compiler();
  const std::string command = "SMLA_CACHE_DIR='" + warm_directory().string() + "' '" +
                              std::filesystem::read_symlink("/proc/self/exe").string() + "' '[warm]'";
  const auto run = [&] {
    FILE* const pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string said;
    char bytes[4096];
    while (const std::size_t count = fread(bytes, 1, sizeof bytes, pipe)) said.append(bytes, count);
    REQUIRE(pclose(pipe) == 0);
    return said;
  };
  // The directory was filled by a child of this process, which had NVRTC loaded and so nothing to remember.
  REQUIRE_THAT(run(), contains("<user cache, "));
  double least = 1e9;
  for (int i = 0; i < 5; ++i) {
    const std::string said = run();
    REQUIRE_THAT(said, contains("<user cache, NVRTC closed> "));
    least = std::min(least, std::stod(said.substr(said.find("> ") + 2)));
  }
#ifndef SMLA_SANITIZED
  CHECK(least < 20);
#endif
}

TEST_CASE(
    "C45: another build of NVRTC under the same path is a new entry, and the former one is a hit again") {
  const TemporaryDirectory compiler, cache;
  const auto library = compiler.path() / "libnvrtc.so.13", image = compiler.path() / "image";
  smla_test::write_in_place(image, smla_test::elf_with_sections({".text.k"}, 16));
  const auto from = [&](char build) {
    smla_test::write_in_place(library, smla_test::fake_nvrtc_of_build(build));
    return in_process(
        {{"SMLA_NVRTC", library}, {"SMLA_CACHE_DIR", cache.path()}, {"SMLA_FAKE_NVRTC_IMAGE", image}});
  };
  CHECK(from('1') == "built");
  CHECK(from('1') == "user cache");
  CHECK(from('2') == "built");
  CHECK(from('2') == "user cache");
  CHECK(from('1') == "user cache");
}

TEST_CASE("a memory hit, looked up by values, takes less than 2 us") {
  need_compiler();
  const std::string directory = warm_directory().string();
  const auto child = in_child([&]() -> std::string {
    setenv("SMLA_CACHE_DIR", directory.c_str(), 1);
    const Config c = config();
    const auto first = prepare(kProblem, c, kArch);
    double least = 1e9;
    for (int run = 0; run < 20; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < 1000; ++i) {
        if (prepare(kProblem, c, kArch) != first) return "another one";
      }
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
      least = std::min(least, took.count() / 1000);
    }
    return std::to_string(least);
  });
  INFO(child.output);
  CHECK(std::stod(child.output) < 2);
}

TEST_CASE("SMLA_JIT=off takes what is cached and never opens the compiler") {
  need_compiler();
  const std::string directory = warm_directory().string();
  CHECK(in_process({{"SMLA_CACHE_DIR", directory}, {"SMLA_JIT", "off"}, {"SMLA_NVRTC", "/nowhere"}}) ==
        "user cache");
}

TEST_CASE("SMLA_JIT=off makes a miss an error with the line that would fix it") {
  const TemporaryDirectory empty;
  const auto child = in_child([&]() -> std::string {
    setenv("SMLA_CACHE_DIR", empty.path().c_str(), 1);
    setenv("SMLA_JIT", "off", 1);
    try {
      return prepared_from();
    } catch (const Error& error) {
      return std::string(status_name(error.status())) + ": " + error.what();
    }
  });
  CHECK_THAT(child.output, contains("not cached: smla: the kernels of h16-d512t0-bf16") &&
                               contains("looked in " + empty.path().string()) &&
                               contains("run: smla-prewarm --heads 16 --d-tail 0 --arch sm_80"));
}

TEST_CASE("SMLA_JIT of another word is refused") {
  const TemporaryDirectory empty;
  CHECK_THAT(in_process({{"SMLA_CACHE_DIR", empty.path()}, {"SMLA_JIT", "maybe"}}),
             contains("SMLA_JIT = \"maybe\" is neither \"on\" nor \"off\""));
}

TEST_CASE("without NVRTC a prewarmed entry of any compiler is found, and a miss says both") {
  need_compiler();
  const std::string directory = warm_directory().string();
  CHECK(in_process({{"SMLA_CACHE_DIR", directory}, {"SMLA_NVRTC", "/nowhere"}}) == "user cache");
  const TemporaryDirectory empty;
  CHECK_THAT(
      in_process({{"SMLA_CACHE_DIR", empty.path()}, {"SMLA_NVRTC", "/nowhere"}}),
      contains("/nowhere") && contains("are in no cache either") && contains("smla-prewarm --heads 16"));
}

TEST_CASE("an NVRTC that is too old for the arch gives way to a prewarmed entry") {
  need_compiler();
  const Problem problem = kProblem;
  const Arch newer = {90, true};
  const TemporaryDirectory directory;
  const auto in_both = [&](const char* nvrtc) {
    return in_child([&]() -> std::string {
             setenv("SMLA_CACHE_DIR", directory.path().c_str(), 1);
             if (nvrtc != nullptr) setenv("SMLA_NVRTC", nvrtc, 1);
             return std::string(name(prepare(problem, choose_config(problem, newer).config, newer)->source));
           })
        .output;
  };
  CHECK_THAT(in_both(SMLA_FAKE_NVRTC), contains("sm_90a") && contains("are in no cache either"));
  CHECK(in_both(nullptr) == "built");
  CHECK(in_both(SMLA_FAKE_NVRTC) == "user cache");
}

TEST_CASE("SMLA_RECORD notes each kernel once") {
  need_compiler();
  const std::string directory = warm_directory().string();
  const TemporaryDirectory records;
  const auto file = records.path() / "record.json";
  for (int process = 0; process < 2; ++process) {
    CHECK(in_child([&]() -> std::string {
            setenv("SMLA_CACHE_DIR", directory.c_str(), 1);
            setenv("SMLA_RECORD", file.c_str(), 1);
            prepared_from();
            return prepared_from();
          }).output == "user cache");
  }
  const Manifest manifest = read_manifest(file);
  REQUIRE(manifest.size() == 1);
  CHECK(manifest[0].problem == kProblem);
  CHECK(manifest[0].arch == kArch);
  CHECK(choose_config(manifest[0].problem, manifest[0].arch, manifest[0].request).config == config());
}

TEST_CASE("threads that ask for one kernel share one preparation") {
  need_compiler();
  const std::string directory = warm_directory().string();
  const auto child = in_child([&]() -> std::string {
    setenv("SMLA_CACHE_DIR", directory.c_str(), 1);
    std::vector<std::shared_ptr<const Prepared>> got(8);
    std::vector<std::thread> threads;
    for (auto& slot : got) threads.emplace_back([&slot] { slot = prepare(kProblem, config(), kArch); });
    for (auto& thread : threads) thread.join();
    for (const auto& one : got) {
      if (one != got[0]) return "different";
    }
    return find_prepared(kProblem, config(), kArch) == got[0] ? "one" : "not found";
  });
  CHECK(child.output == "one");
}

TEST_CASE("C45: the key holds schema, text, arch, compiler and options, and no lengths or paths") {
  const KernelSource source = generate(kProblem, config());
  const CacheKey key = cache_key(source, kArch, "NVRTC 13.0");
  const auto lines = key_lines(key);
  std::vector<std::string> labels;
  for (const auto& [label, value] : lines) labels.push_back(label);
  CHECK(labels == std::vector<std::string>{"schema", "source-sha256", "arch", "compiler", "options"});
  CHECK_THAT(key.stem, contains("sparse-mla-bwd-h16-d512t0-bf16-cp_async") && contains("-sm_80"));
  CHECK(cache_key(source, kArch, "NVRTC 12.9").hash() != key.hash());
  CHECK(cache_key(source, {86, false}, "NVRTC 13.0").hash() != key.hash());
  KernelSource changed = source;
  changed.parts.back().text += "\n";
  CHECK(cache_key(changed, kArch, "NVRTC 13.0").hash() != key.hash());
  CHECK(cache_key(generate(kProblem, config()), kArch, "NVRTC 13.0") == key);
}
