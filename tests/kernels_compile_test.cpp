// Every family of kernels compiled for every arch, without a GPU: what ptxas says of them is held here.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "base/error.h"
#include "catch.h"
#include "compiler/compiler.h"
#include "config/config.h"
#include "covering.h"
#include "generator/generator.h"
#include "temporary_directory.h"

using namespace smla::core;
using smla_test::covering_rows;
using smla_test::TemporaryDirectory;

namespace {

struct Family {
  Problem problem;
  Arch arch;
  ConfigRequest request = {};
};

struct Compiled {
  KernelSource source;
  Cubin cubin;
  std::string error;
  Problem problem;
};

Compiled compile_family(const Family& family) {
  Compiled result;
  result.problem = family.problem;
  try {
    result.source =
        generate(family.problem, choose_config(family.problem, family.arch, family.request).config);
    result.cubin = compile(result.source, family.arch);
  } catch (const Error& error) {
    result.error = error.what();
  }
  return result;
}

// On all cores: NVRTC compiles one text a thread.
std::vector<Compiled> compile_all(const std::vector<Family>& families) {
  std::vector<Compiled> results(families.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::future<void>> workers;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    workers.push_back(std::async(std::launch::async, [&] {
      for (std::size_t k = next++; k < families.size(); k = next++) results[k] = compile_family(families[k]);
    }));
  }
  for (auto& worker : workers) worker.get();
  return results;
}

void require_nvrtc() {
  try {
    (void)compiler_version();
  } catch (const Error&) {
    SKIP("no NVRTC");
  }
}

bool compiles_for(const Arch& arch) {
  const std::vector<int> numbers = compiler_arch_numbers();
  return std::find(numbers.begin(), numbers.end(), arch.number) != numbers.end();
}

Problem problem_of(int heads, int d_tail, DType dtype) {
  Problem problem;
  problem.heads = heads;
  problem.d_tail = d_tail;
  problem.dtype = dtype;
  return problem;
}

Problem partial(Problem problem) {
  problem.accumulate = Accumulate::partial;
  return problem;
}

Problem deterministic(Problem problem) {
  problem.deterministic = true;
  return problem;
}

// ptxas says so when it ignores setmaxnreg (C7508), makes wgmmas wait for each other (C7509 to C7518) or
// injects a wait for them (C7520). What else it numbers here counts too, but an injected warpgroup.arrive
// (C7519): it costs nothing.
bool is_lost_speed(const std::string& warning) {
  return warning.find("Potential Performance Loss") != std::string::npos ||
         (warning.find("(C75") != std::string::npos && warning.find("(C7519)") == std::string::npos);
}

}  // namespace

TEST_CASE("what ptxas says of lost speed is told from what costs nothing") {
  CHECK(is_lost_speed("(C7508) Potential Performance Loss: 'setmaxnreg' ignored to allow debugging."));
  CHECK(is_lost_speed(
      "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..."));
  CHECK(is_lost_speed(
      "(C7520) warpgroup.wait is injected in around line 7 by compiler to allow use of registers "
      "defined by GMMA in function 'f'"));
  CHECK_FALSE(
      is_lost_speed("(C7519) warpgroup.arrive is injected in around line 7 by compiler to allow use of "
                    "registers in GMMA in function 'f'"));
}

TEST_CASE("cp_async compiles for every arch without a spilled register") {
  require_nvrtc();
  std::vector<Family> families;
  for (const Arch& arch : known_archs()) {
    if (!compiles_for(arch)) continue;
    families.push_back({problem_of(16, 64, DType::bf16), arch, {.schedule = Schedule::cp_async}});
    families.push_back({problem_of(64, 64, DType::bf16), arch, {.schedule = Schedule::cp_async}});
    families.push_back({problem_of(32, 0, DType::fp16), arch, {.schedule = Schedule::cp_async}});
    families.push_back(
        {deterministic(problem_of(16, 64, DType::bf16)), arch, {.schedule = Schedule::cp_async}});
    families.push_back(
        {deterministic(problem_of(64, 64, DType::fp16)), arch, {.schedule = Schedule::cp_async}});
  }
  REQUIRE(families.size() >= 25);
  for (const Compiled& compiled : compile_all(families)) {
    CAPTURE(compiled.source.name, compiled.cubin.arch, compiled.error);
    REQUIRE(compiled.error.empty());
    REQUIRE(compiled.cubin.kernels.size() == compiled.source.kernels.size());
    for (const KernelResources& kernel : compiled.cubin.kernels) {
      CAPTURE(kernel.name);
      CHECK(kernel.spill_store_bytes == 0);
      CHECK(kernel.stack_bytes == 0);
      CHECK(kernel.registers <= 255);
      CHECK(kernel.code_bytes > 0);
    }
  }
}

TEST_CASE(
    "wgmma compiles for sm_90a: no serialised wgmma, setmaxnreg heeded, no spill beyond the gather's few "
    "bytes") {
  require_nvrtc();
  if (!compiles_for({90, true})) SKIP("this NVRTC does not compile for sm_90a");
  Problem causal = problem_of(128, 64, DType::bf16), tokens = problem_of(8, 64, DType::bf16);
  tokens.causal = tokens.has_topk_length = tokens.has_delta = true;
  causal.causal = causal.has_topk_length = causal.has_sink = true;
  std::vector<Family> families;
  for (const Problem& problem :
       {problem_of(64, 64, DType::bf16), problem_of(64, 0, DType::bf16), problem_of(64, 64, DType::fp16),
        problem_of(128, 0, DType::fp16), causal, problem_of(16, 64, DType::bf16),
        problem_of(24, 0, DType::fp16), problem_of(40, 64, DType::bf16), tokens,
        deterministic(problem_of(64, 64, DType::bf16)), deterministic(problem_of(64, 0, DType::fp16)),
        deterministic(causal), deterministic(problem_of(16, 64, DType::bf16)), deterministic(tokens),
        partial(problem_of(64, 64, DType::bf16)), partial(problem_of(64, 0, DType::bf16)), partial(causal),
        partial(problem_of(16, 64, DType::bf16)), partial(tokens)}) {
    families.push_back({problem, {90, true}, {.schedule = Schedule::wgmma}});
  }
  for (const Compiled& compiled : compile_all(families)) {
    CAPTURE(compiled.source.name, compiled.error);
    REQUIRE(compiled.error.empty());
    for (const std::string& warning : compiled.cubin.warnings) {
      CAPTURE(warning);
      CHECK_FALSE(is_lost_speed(warning));
    }
    for (const KernelResources& kernel : compiled.cubin.kernels) {
      CAPTURE(kernel.name);
      const bool backward = kernel.name.find("smla_backward") == 0;
      // NVRTC 13.0: 8, in the 24-register gather; padded heads and shared lists 8 to 124, half of it before
      // and after the loop over tiles; deterministic 48, most of them in the gather, too.
      const bool whole_tokens = compiled.problem.heads_per_group() % 64 == 0;
      const bool integers = compiled.problem.deterministic;
      const bool bounds =
          integers || compiled.problem.accumulate == Accumulate::partial;  // preprocess reads q and d_o
      CHECK(kernel.spill_store_bytes <= (!backward ? 0 : whole_tokens ? (integers ? 64 : 8) : integers ? 128 : 64));
      CHECK(kernel.registers <= (backward ? 168
                                 : bounds ? 80
                                          : 64));  // 384 x 168: what setmaxnreg shares out
    }
  }
}

TEST_CASE(
    "wgmma_pair compiles for sm_90a: no serialised wgmma, setmaxnreg heeded, 64 bytes of spills at most") {
  require_nvrtc();
  if (!compiles_for({90, true})) SKIP("this NVRTC does not compile for sm_90a");
  Problem options = problem_of(128, 64, DType::bf16), padded = problem_of(65, 0, DType::bf16);
  options.causal = options.has_topk_length = options.has_sink = true;
  padded.has_delta = true;
  padded.d_kv_type = DkvType::fp32;
  Problem groups = problem_of(256, 64, DType::bf16);
  groups.kv_groups = 2;
  std::vector<Family> families;
  for (const Problem& problem :
       {problem_of(128, 64, DType::bf16), problem_of(128, 0, DType::bf16), options,
        problem_of(96, 64, DType::bf16), padded, groups, problem_of(256, 64, DType::bf16)}) {
    families.push_back({problem, {90, true}, {.schedule = Schedule::wgmma_pair}});
  }
  for (const Compiled& compiled : compile_all(families)) {
    CAPTURE(compiled.source.name, compiled.error);
    REQUIRE(compiled.error.empty());
    for (const std::string& warning : compiled.cubin.warnings) {
      CAPTURE(warning);
      CHECK_FALSE(is_lost_speed(warning));
    }
    for (const KernelResources& kernel : compiled.cubin.kernels) {
      CAPTURE(kernel.name);
      const bool backward = kernel.name.find("smla_backward") == 0;
      const bool whole =
          compiled.problem.heads_per_group() % 64 == 0;  // padded heads take more, before and behind the loop
      CHECK(kernel.spill_store_bytes <= (!backward ? 0 : whole ? 16 : 32));
      CHECK(kernel.registers <= (backward ? 168 : 64));
    }
  }
}

TEST_CASE("a cold compile of the DeepSeek-V3.2 kernels takes less than 2 s of one core a kernel") {
  require_nvrtc();
  if (!compiles_for({90, true})) SKIP("this NVRTC does not compile for sm_90a");
  const Compiled compiled = compile_family({problem_of(64, 64, DType::bf16), {90, true}, {}});
  REQUIRE(compiled.error.empty());
  CAPTURE(compiled.cubin.compile_cpu_seconds);
  // Four kernels in one text. The bound leaves room for a slow or busy core; quickstart prints the time
  // itself.
  CHECK(compiled.cubin.compile_cpu_seconds < 4 * 2.0);
}

TEST_CASE("every two options compile together, in all schedules") {
  require_nvrtc();
  if (!compiles_for({90, true})) SKIP("this NVRTC does not compile for sm_90a");
  std::vector<Family> families;
  for (const std::vector<int>& row : covering_rows({3, 4, 2, 2, 2, 2, 3, 2, 2, 2, 2, 2})) {
    constexpr int kHeads[] = {3, 16, 40, 64};
    Problem p{.kv_groups = 1 + row[10],
              .d_tail = row[2] == 0 ? 64 : 0,
              .dtype = row[3] == 0 ? DType::bf16 : DType::fp16,
              .causal = row[4] == 1,
              .has_sink = row[6] > 0,
              .has_topk_length = row[5] == 1,
              .has_delta = row[7] == 1,
              .lse_base = row[8] == 0 ? LseBase::two : LseBase::e,
              .lse_includes_sink = row[6] == 2,
              .d_kv_type = row[9] == 0 ? DkvType::operand : DkvType::fp32,
              .deterministic = row[11] == 1};
    p.heads = kHeads[row[1]] * p.kv_groups;
    constexpr Schedule kSchedules[] = {Schedule::cp_async, Schedule::wgmma, Schedule::wgmma_pair};
    const Schedule schedule = kSchedules[row[0]];
    if (schedule == Schedule::wgmma_pair) {  // of its own heads and type of sums
      p.heads = (row[1] % 2 == 0 ? 128 : 96) * p.kv_groups;
      p.dtype = DType::bf16;
      p.deterministic = false;
    }
    families.push_back({p, {90, true}, {.schedule = schedule}});
  }
  REQUIRE(families.size() >= 12);
  for (const Compiled& compiled : compile_all(families)) {
    CAPTURE(compiled.source.name, compiled.error);
    CHECK(compiled.error.empty());
  }
}

TEST_CASE("a dumped file builds alone with nvcc") {
  if (std::system("nvcc --version > /dev/null 2>&1") != 0) SKIP("no nvcc");
  const TemporaryDirectory directory;
  for (const char* arch : {"sm_90a", "sm_80"}) {
    const Problem problem = problem_of(128, 64, DType::bf16);
    const std::filesystem::path file = directory.path() / (std::string(arch) + ".cu");
    std::ofstream(file) << generate(problem, choose_config(problem, parse_arch(arch)).config).text();
    const std::string command = "nvcc -std=c++17 -cubin -arch=" + std::string(arch) + " -o " +
                                (file.string() + ".cubin") + " " + file.string() + " > /dev/null 2>&1";
    CAPTURE(command);
    CHECK(std::system(command.c_str()) == 0);
  }
}
