// The manifest that SMLA_RECORD writes and smla-prewarm reads.
#include "plan/manifest.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "catch.h"
#include "child.h"
#include "temporary_directory.h"

using namespace smla::core;
using smla_test::contains;

namespace {

const ManifestEntry kForced = {{.heads = 128,
                                .kv_groups = 2,
                                .d_tail = 0,
                                .dtype = DType::fp16,
                                .causal = true,
                                .has_sink = true,
                                .has_topk_length = true,
                                .has_delta = true,
                                .lse_base = LseBase::e,
                                .lse_includes_sink = true,
                                .d_kv_type = DkvType::fp32},
                               {Schedule::cp_async, 32, 16, 1, 128},
                               {86, false}};

std::string refusal(const std::string& text) {
  try {
    parse_manifest(text, "shapes.json");
  } catch (const Error& error) {
    CHECK(error.status() == Status::invalid_argument);
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("a manifest reads back as it was written") {
  const Manifest manifest = {{{.heads = 64}, {}, {90, true}}, kForced};
  CHECK(parse_manifest(manifest_text(manifest), "text") == manifest);
}

TEST_CASE("a manifest written by hand needs heads and arch alone") {
  const Manifest manifest =
      parse_manifest(R"({"kernels": [{"problem": {"heads": 128}, "arch": "sm_90a"}]})", "text");
  REQUIRE(manifest.size() == 1);
  CHECK(manifest[0] == ManifestEntry{{.heads = 128}, {}, {90, true}});
}

TEST_CASE("what is wrong in a manifest is said in a sentence, however large or deep it is") {
  const auto kernel = [](const std::string& text) { return refusal(R"({"kernels": [)" + text + "]}"); };
  CHECK_THAT(kernel(std::string(1000000, '[') + std::string(1000000, ']')), contains("and is an array"));
  CHECK(kernel('"' + std::string(1000000, 'x') + '"').size() < 300);
}

TEST_CASE("a manifest that is a directory is refused by name") {
  const smla_test::TemporaryDirectory directory;
  CHECK_THROWS_WITH(read_manifest(directory.path()),
                    contains(directory.path().string()) && contains("it is a directory"));
}

TEST_CASE("what is wrong in a manifest is said with its place") {
  CHECK_THAT(refusal("{"), contains("shapes.json is not JSON"));
  CHECK_THAT(refusal("[]"), contains("shapes.json is no manifest"));
  CHECK_THAT(refusal(R"({"smla_manifest": 2, "kernels": []})"),
             contains("version 2; this smla reads version 1"));
  const auto kernel = [](const std::string& text) { return refusal(R"({"kernels": [)" + text + "]}"); };
  CHECK_THAT(kernel(R"({"problem": {"heads": 64}})"), contains("shapes.json, kernel 0: a kernel needs"));
  CHECK_THAT(kernel(R"({"problem": {"heads": 18446744073709551615}, "arch": "sm_90a"})"),
             contains("problem.heads = 18446744073709551615 is not in the range"));
  CHECK_THAT(kernel(R"({"problem": {"heads": "64"}, "arch": "sm_90a"})"),
             contains("problem.heads = \"64\" is not an integer"));
  CHECK_THAT(kernel(R"({"problem": {"heads": 64, "hats": 1}, "arch": "sm_90a"})"),
             contains("problem.hats is no field"));
  CHECK_THAT(kernel(R"({"problem": {"heads": 64, "causal": 1}, "arch": "sm_90a"})"),
             contains("problem.causal = 1 is neither"));
  CHECK_THAT(kernel(R"({"problem": {"heads": 64, "dtype": "fp32"}, "arch": "sm_90a"})"),
             contains("problem.dtype = \"fp32\" is neither \"bf16\" nor \"fp16\""));
  CHECK_THAT(kernel(R"({"problem": {"heads": 99999999999}, "arch": "sm_90a"})"), contains("32-bit"));
  CHECK_THAT(kernel(R"({"problem": {"heads": 64}, "arch": "sm_1"})"), contains("sm_1"));
  CHECK_THAT(kernel(R"({"problem": {"heads": 64}, "arch": "sm_80", "config": {"threads": []}})"),
             contains("config.threads = [] is not an integer"));
}

TEST_CASE("a missing manifest is reported by name") {
  try {
    read_manifest("/nowhere/shapes.json");
    FAIL("it was read");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), contains("the manifest /nowhere/shapes.json cannot be read: No such file"));
  }
}

TEST_CASE("an entry is added once") {
  const smla_test::TemporaryDirectory directory;
  const auto file = directory.path() / "record.json";
  for (int i = 0; i < 3; ++i) add_to_manifest(file, kForced);
  add_to_manifest(file, {{.heads = 8}, {}, {80, false}});
  CHECK(read_manifest(file) == Manifest{kForced, {{.heads = 8}, {}, {80, false}}});
}

TEST_CASE("entries of many processes are merged and no temporaries are left") {
  const smla_test::TemporaryDirectory directory;
  const auto file = directory.path() / "record.json";
  {
    std::vector<smla_test::Child> children;
    for (int process = 0; process < 8; ++process) {
      children.emplace_back([&file, process]() -> std::string {
        for (int i = 0; i < 8; ++i)
          add_to_manifest(file, {{.heads = 1 + (process + i) % 16}, {}, {90, true}});
        return "";
      });
    }
    for (auto& child : children) CHECK(child.wait().exit_code == 0);
  }
  CHECK(read_manifest(file).size() == 15);  // heads 1 .. 15
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"record.json", "record.json.lock"});
}

TEST_CASE("a record that cannot be written is a warning and not an error") {
  std::string warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings += message; });
  setenv("SMLA_RECORD", "/nowhere/record.json", 1);
  CHECK_NOTHROW(record({.heads = 64}, choose_config({.heads = 64}, {90, true}).config, {90, true}));
  unsetenv("SMLA_RECORD");
  set_log_sink({});
  CHECK_THAT(warnings,
             contains("SMLA_RECORD=/nowhere/record.json: the kernel h64-d512t64-bf16 was not recorded"));
}

TEST_CASE("a damaged record is left alone") {
  const smla_test::TemporaryDirectory directory;
  const auto file = directory.path() / "record.json";
  std::ofstream(file) << "precious notes";
  CHECK_THROWS_AS(add_to_manifest(file, kForced), Error);
  std::string text;
  std::getline(std::ifstream(file), text);
  CHECK(text == "precious notes");
}

TEST_CASE("the prewarm line spells what differs from the defaults") {
  const auto chosen = [](const Problem& p, const Arch& arch) {
    return prewarm_line(p, choose_config(p, arch).config, arch);
  };
  CHECK(chosen({.heads = 64}, {90, true}) == "smla-prewarm --heads 64 --arch sm_90a");
  CHECK(chosen(kForced.problem, {86, false}) ==
        "smla-prewarm --heads 128 --kv-groups 2 --d-tail 0 --dtype fp16 --causal --sink --lse-includes-sink "
        "--topk-length "
        "--delta --lse-base e --d-kv-type fp32 --arch sm_86");
  const Config forced = choose_config({.heads = 64}, {90, true}, {.schedule = Schedule::cp_async}).config;
  CHECK_THAT(
      prewarm_line({.heads = 64}, forced, {90, true}),
      contains(
          "smla-prewarm --heads 64 --schedule cp_async --block-h 64 --block-size 32 --stages 2 --threads 256 "
          "--arch sm_90a"));
}
