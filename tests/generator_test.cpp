// The text that the generator writes. Golden files hold what it writes itself; templates stand in them by
// name. SMLA_UPDATE_GOLDEN=1 writes them anew.
#include "generator/generator.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/error.h"
#include "catch.h"
#include "config/config.h"

using namespace smla::core;
using smla_test::contains;

namespace {

const std::filesystem::path kSourceDir = SMLA_SOURCE_DIR;

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  REQUIRE(stream);
  return {std::istreambuf_iterator<char>(stream), {}};
}

KernelSource source_of(const Problem& problem, const char* arch, const ConfigRequest& request = {}) {
  return generate(problem, choose_config(problem, parse_arch(arch), request).config);
}

bool is_template(const SourcePart& part) {
  return part.name.size() > 4 && part.name.substr(part.name.size() - 4) == ".cuh";
}

// What the generator wrote, with each template by name.
std::string written(const KernelSource& source) {
  std::string text = source.name + "\n\n";
  for (const SourcePart& part : source.parts) {
    text += is_template(part) ? "[" + part.name + "]\n\n" : part.text;
  }
  return text;
}

}  // namespace

TEST_CASE("golden files: what the generator writes for the models in use") {
  struct Golden {
    const char* file;
    Problem problem;
    const char* arch;
  };
  Problem deepseek_v32;
  deepseek_v32.heads = 128;
  Problem sliced = deepseek_v32;
  sliced.heads = 16;
  sliced.causal = true;
  sliced.has_topk_length = true;
  Problem deepseek_v4;
  deepseek_v4.heads = 64;
  deepseek_v4.d_tail = 0;
  deepseek_v4.has_sink = true;
  deepseek_v4.lse_base = LseBase::e;
  deepseek_v4.dtype = DType::fp16;
  deepseek_v4.d_kv_type = DkvType::fp32;
  Problem deterministic;
  deterministic.heads = 64;
  deterministic.deterministic = true;
  Problem partial;
  partial.heads = 64;
  partial.accumulate = Accumulate::partial;
  const Golden golden = GENERATE_COPY(Golden{"deepseek-v3.2-h128-sm_90a.txt", deepseek_v32, "sm_90a"},
                                      Golden{"causal-slice-h16-sm_90a.txt", sliced, "sm_90a"},
                                      Golden{"deepseek-v4-h64-sm_90a.txt", deepseek_v4, "sm_90a"},
                                      Golden{"deepseek-v3.2-h128-sm_80.txt", deepseek_v32, "sm_80"},
                                      Golden{"deterministic-h64-sm_90a.txt", deterministic, "sm_90a"},
                                      Golden{"partial-h64-sm_90a.txt", partial, "sm_90a"});
  const std::filesystem::path file = kSourceDir / "tests" / "golden" / golden.file;
  const std::string text = written(source_of(golden.problem, golden.arch));
  if (std::getenv("SMLA_UPDATE_GOLDEN")) std::ofstream(file, std::ios::binary) << text;
  CAPTURE(golden.file);
  CHECK(text == read(file));
}

TEST_CASE("the same problem and config give the same bytes") {
  Problem problem;
  problem.heads = 64;
  CHECK(source_of(problem, "sm_90a").text() == source_of(problem, "sm_90a").text());
}

TEST_CASE("a source holds its templates whole, in the order in which they need each other") {
  Problem problem;
  problem.heads = 64;
  const KernelSource source = source_of(problem, "sm_90a");
  std::vector<std::string> names;
  for (const SourcePart& part : source.parts) names.push_back(part.name);
  CHECK(names == std::vector<std::string>{"banner",
                                          "constants",
                                          "ptx.cuh",
                                          "arguments.cuh",
                                          "fallback.cuh",
                                          "operand.cuh",
                                          "lists.cuh",
                                          "unscaled.cuh",
                                          "columns.cuh",
                                          "panels.cuh",
                                          "preprocess.cuh",
                                          "sort_lists.cuh",
                                          "operand_wgmma.cuh",
                                          "wgmma_layout.cuh",
                                          "wgmma_alone.cuh",
                                          "wgmma_shares.cuh",
                                          "wgmma_reductions.cuh",
                                          "wgmma_out.cuh",
                                          "gradient sequence",
                                          "wgmma_gather.cuh",
                                          "wgmma_delta.cuh",
                                          "wgmma_scores.cuh",
                                          "backward_wgmma.cuh",
                                          "postprocess.cuh",
                                          "entries"});
  for (const SourcePart& part : source.parts) {
    if (!is_template(part)) continue;
    std::string text = read(kSourceDir / "templates" / part.name);
    const std::string guard = "#pragma once\n";
    text.erase(text.find(guard), guard.size());
    CAPTURE(part.name);
    CHECK_THAT(part.text, contains(text));
  }
}

TEST_CASE("the source of a pair has the exchange in the place of what one CTA does") {
  const KernelSource source = source_of({.heads = 128}, "sm_90a");
  std::vector<std::string> names;
  for (const SourcePart& part : source.parts) names.push_back(part.name);
  const std::vector<std::string> want = {
      "operand_wgmma.cuh",    "wgmma_layout.cuh", "wgmma_exchange.cuh", "wgmma_shares.cuh",
      "wgmma_reductions.cuh", "wgmma_out.cuh",    "wgmma_in_place.cuh", "pair sequence",
      "wgmma_gather.cuh",     "wgmma_delta.cuh",  "wgmma_scores.cuh",   "backward_wgmma_pair.cuh"};
  const auto first = std::find(names.begin(), names.end(), want.front());
  REQUIRE(names.end() - first > std::ssize(want));
  CHECK(std::vector<std::string>(first, first + std::ssize(want)) == want);
  const std::string text = source.text();
  CHECK_THAT(text, contains("PTX_KERNEL_CLUSTER(2, 384, 1) smla_backward_"));
  CHECK(text.find("PTX_KERNEL_CLUSTER(2, 256") == std::string::npos);  // the backward alone
  CHECK_THAT(text, !contains("wgmma_alone.cuh ====") && !contains("gradient sequence ===="));
}

TEST_CASE("device code speaks PTX through ptx.cuh alone and includes nothing") {
  for (const auto& entry : std::filesystem::directory_iterator(kSourceDir / "templates")) {
    const std::string text = read(entry.path());
    CAPTURE(entry.path().filename());
    CHECK(text.find("#include") == std::string::npos);
    if (entry.path().filename() != "ptx.cuh") CHECK(text.find("asm") == std::string::npos);
  }
}

TEST_CASE("four kernels, in launch order, with their launch facts") {
  Problem problem;
  problem.heads = 192;
  const KernelSource source = source_of(problem, "sm_90a");
  REQUIRE(source.kernels.size() == 4);
  CHECK(source.kernels[0].role == KernelRole::preprocess);
  CHECK(source.kernels[1].role == KernelRole::sort_lists);
  CHECK(source.kernels[3].role == KernelRole::postprocess);
  const KernelFacts& backward = kernel(source, KernelRole::backward);
  CHECK(backward.name == "smla_backward_h192_d512t64_bf16_wgmma_bh64_bs64_st1_th384");
  CHECK(backward.threads == 384);
  CHECK(backward.shared_bytes == 230400);
  for (const KernelFacts& facts : source.kernels) CHECK_THAT(source.text(), contains(" " + facts.name + "("));
}

TEST_CASE("a deterministic problem has integers in the place of fp32 sums, and one kernel more") {
  for (const int heads : {16, 64}) {
    Problem problem;
    problem.heads = heads;
    const std::string floats = source_of(problem, "sm_90a").text();
    problem.deterministic = true;
    const KernelSource source = source_of(problem, "sm_90a");
    const std::string integers = source.text();
    CAPTURE(source.name);
    CHECK_THAT(floats, contains("======== columns.cuh") && !contains("fixed_point.cuh ===="));
    CHECK_THAT(integers, contains("======== fixed_point.cuh") && !contains("columns.cuh ===="));
    CHECK_THAT(integers, contains("sum_row_bytes = 4864;"));
    REQUIRE(source.kernels.size() == 5);
    CHECK(source.kernels[1].role == KernelRole::row_scales);
    CHECK_THAT(integers, contains(" " + source.kernels[1].name + "("));
  }
}

TEST_CASE("SMLA_TEMPLATE_DIR overrides the templates that it holds") {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("smla-templates-" + std::to_string(::getpid()));
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "panels.cuh") << "#pragma once\n// ours\n";
  ::setenv("SMLA_TEMPLATE_DIR", directory.c_str(), 1);
  Problem problem;
  problem.heads = 64;
  const std::string text = source_of(problem, "sm_90a").text();
  ::setenv("SMLA_TEMPLATE_DIR", (directory / "absent").c_str(), 1);
  std::string refusal;
  try {
    source_of(problem, "sm_90a");
  } catch (const Error& error) {
    refusal = error.what();
  }
  ::unsetenv("SMLA_TEMPLATE_DIR");
  std::filesystem::remove_all(directory);
  CHECK_THAT(text, contains("// ours") && contains("PTX_FN void preprocess("));
  CHECK_THAT(refusal, contains("SMLA_TEMPLATE_DIR"));
}

TEST_CASE("sort_lists asks for a bit a kv row and token, and its sums") {
  const Config one = {.schedule = Schedule::wgmma, .block_h = 64},
               four = {.schedule = Schedule::wgmma, .block_h = 16};
  CHECK(sort_shared_bytes(0, one) == 1072);
  CHECK(sort_shared_bytes(33, one) == 8 + 1072);
  CHECK(sort_shared_bytes(33, four) == 4 * 8 + 1072);
}
