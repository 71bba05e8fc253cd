// The emulator itself: its twin of ptx.cuh, what it notices in small kernels, and how it says so.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "compiler/compiler.h"
#include "cpu_kernels.h"
#include "emulator/emulated_text.h"
#include "emulator/global_memory.h"
#include "generator/templates.h"
#include "small_kernels.h"

using namespace smla_test;
using namespace smla::core::emulator;

namespace {

// "template <int TransB> void name(float (&d)[16], ...)" of every function of a ptx.cuh, blanks collapsed.
std::set<std::string> signatures(std::string text) {
  text = std::regex_replace(text, std::regex("//[^\n]*"), "");
  text = std::regex_replace(text, std::regex("\\s+"), " ");
  std::set<std::string> found;
  const std::regex function(
      "(template <[^>]*> )?PTX_FN ([a-z0-9_]+ )?([a-z0-9_]+ [a-zA-Z0-9_]+\\([^{]*\\)) \\{");
  for (std::sregex_iterator it(text.begin(), text.end(), function), end; it != end; ++it) {
    found.insert((*it)[1].str() + (*it)[2].str() + (*it)[3].str());
  }
  return found;
}

// What the twin has beyond ptx.cuh: CUDA's own names.
bool is_cuda(const std::string& signature) {
  static const std::regex cuda(" (__[a-z_]+|min|max|fabsf|fminf|fmaxf|fmaf|emulated_shuffle)\\(");
  return std::regex_search(signature, cuda);
}

std::set<std::string> macros(const std::string& text) {
  std::set<std::string> found;
  const std::regex macro("#define (PTX_[A-Z_]+)");
  for (std::sregex_iterator it(text.begin(), text.end(), macro), end; it != end; ++it)
    found.insert((*it)[1].str());
  return found;
}

// A kernel that calls every function of ptx.cuh, whether or not a template does.
std::string kernel_of_all_names() {
  std::string text =
      "PTX_KERNEL_CLUSTER(1 + 1, 384, 1) all_names(PTX_PARAMETER u64 n) {\n  PTX_DYNAMIC_SHARED(shared);\n"
      "  PTX_STATIC_SHARED(fixed, 64);\n  float d16[16] = {}, d32[32] = {}, d128[128] = {}, d4[4] = {};\n"
      "  u32 r[4] = {}, two[2] = {}, x = (u32)n, y = x;\n  u64 b = n;\n  void* p = (void*)n;\n"
      "  x += shared_address(shared) + shared_address(fixed);\n";
  const auto call = [&](const std::string& statement) { text += "  " + statement + ";\n"; };
  for (const char* type : {"bf16", "f16"}) {
    const std::string t = type;
    for (const auto& [columns, d] :
         {std::pair("32", "d16"), std::pair("64", "d32"), std::pair("256", "d128")}) {
      const std::string name = std::string("wgmma_m64n") + columns + "k16_" + t;
      call(name + "_ss<0, 1>(" + d + ", b, b, 1)");
      if (std::string(columns) != "64") call(name + "_rs<1>(" + d + ", r, b, 1)");
    }
    call("mma_m16n8k16_" + t + "(d4, r, x, y)");
  }
  for (const char* statement :
       {"b = wgmma_descriptor(x, y)",
        "wgmma_fence()",
        "wgmma_commit_group()",
        "wgmma_wait_group<0>()",
        "setmaxnreg_inc<240>()",
        "setmaxnreg_dec<24>()",
        "ldmatrix_x4(r, x)",
        "ldmatrix_x4_trans(r, x)",
        "stmatrix_x4(x, r[0], r[1], r[2], r[3])",
        "bar_sync(1, 128)",
        "bar_arrive(1, 128)",
        "fence_proxy_async()",
        "mbarrier_init(x, 1)",
        "mbarrier_arrive(x)",
        "mbarrier_wait_parity(x, 0)",
        "barrier_cluster_arrive_release()",
        "barrier_cluster_wait_acquire()",
        "fence_mbarrier_init()",
        "y = mapa_shared_cluster(x, y)",
        "st_shared_cluster_u32(x, y)",
        "st_async_v4_u32(x, y, y, y, y, x)",
        "mbarrier_arrive_expect_tx(x, 64)",
        "mbarrier_arrive_cluster(x)",
        "mbarrier_wait_parity_cluster(x, 0)",
        "y = __all_sync(~0u, x)",
        "cp_async_16(x, p)",
        "cp_async_16_zfill(x, p, 0)",
        "cp_async_commit_group()",
        "cp_async_wait_group<1>()",
        "cp_async_mbarrier_arrive_noinc(x)",
        "cp_async_bulk_prefetch_L2(p, 16)",
        "st_shared_u32(x, y)",
        "st_shared_v4_u32(x, y, y, y, y)",
        "y = ld_shared_u32(x)",
        "ld_shared_v2_u32(x, y, x)",
        "ld_shared_v4_u32(r, x)",
        "y = atom_shared_or_u32(x, 1)",
        "y = ld_global_nc_u32(p)",
        "d4[0] = ld_global_nc_f32((const float*)p)",
        "b = ld_global_nc_u64(p)",
        "ld_global_nc_v2_u32(two, p)",
        "ld_global_nc_v4_u32(r, p)",
        "y = ld_relaxed_gpu_u32((const u32*)p)",
        "st_global_u32(p, y)",
        "st_global_v2_u32(p, x, y)",
        "st_global_f32((float*)p, d4[0])",
        "st_global_v4_u32(p, x, y, x, y)",
        "st_global_cs_v4_u32(p, x, y, x, y)",
        "red_add_u32((u32*)p, y)",
        "red_add_f32((float*)p, d4[0])",
        "red_add_v4_f32((float*)p, d4[0], d4[1], d4[2], d4[3])",
        "red_add_v4_f32_below<7>(x, p, d4[0], d4[1], d4[2], d4[3])",
        "red_add_u64_below<7, 128>(x, p, b)",
        "red_add_noftz_v4_f16x2_below<7>(x, p, y, y, y, y)",
        "red_or_u32_below_above<7, 3, 256>(x, y, p, 1)",
        "y = ctaid_x()",
        "y = cluster_ctarank()",
        "y = tid_x()",
        "y = cvt_rn_bf16x2_f32(d4[0], d4[1])",
        "y = cvt_rn_f16x2_f32(d4[0], d4[1])",
        "d4[0] = cvt_f32_f16((u16)y)",
        "d4[1] = ex2_approx_ftz(d4[0])",
        "d4[2] = lg2_approx(d4[0])",
        "d4[3] = sqrt_approx(d4[0])",
        "st_global_f32((float*)p, d4[0] + d4[1] + d4[2] + d16[0] + d32[0] + d128[0])"}) {
    call(statement);
  }
  return text + "}\n";
}

KernelSource source_of_all_names() {
  KernelSource source;
  source.name = "all-names";
  source.parts = {{"banner", "// Calls every function of ptx.cuh.\n"},
                  {"ptx.cuh", std::regex_replace(template_text("ptx.cuh"), std::regex("#pragma once\n"), "")},
                  {"entries", kernel_of_all_names()}};
  source.kernels = {{KernelRole::backward, "all_names", "1", 384, 0}};
  return source;
}

}  // namespace

TEST_CASE("Both ptx.cuh hold the same names with the same signatures") {
  const std::string device = template_text("ptx.cuh"), twin(twin_text());
  const std::set<std::string> wanted = signatures(device);
  std::set<std::string> got = signatures(twin);
  std::erase_if(got, is_cuda);
  REQUIRE(wanted.size() > 50);
  CHECK(wanted == got);
  CHECK(macros(device) == macros(twin));
}

TEST_CASE("Every name of ptx.cuh is called by the kernel that both compilers get") {
  const std::string text = kernel_of_all_names();
  const std::regex name("([a-zA-Z0-9_]+)\\(");
  for (const std::string& signature : signatures(template_text("ptx.cuh"))) {
    std::smatch match;
    REQUIRE(std::regex_search(signature, match, name));
    INFO(match[1].str());
    CHECK(std::regex_search(text, std::regex("\\b" + match[1].str() + "[<(]")));
  }
}

TEST_CASE("Every name of ptx.cuh compiles for the host") {
  require_host_compiler();
  const auto kernels = compile_for_host(source_of_all_names());
  CHECK(kernels->entry("all_names") != nullptr);
  CHECK(kernels->cluster_size("all_names") == 2);
}

TEST_CASE("Every name of ptx.cuh compiles with NVRTC") {
  try {
    CHECK(!compile(source_of_all_names(), parse_arch("sm_90a")).image.empty());
  } catch (const Error& error) {
    if (error.status() == Status::no_compiler) SKIP("no NVRTC");
    throw;
  }
}

TEST_CASE("Lines of the emulated text keep the numbers of the generated one") {
  const KernelSource source =
      generate({.heads = 64}, choose_config({.heads = 64}, parse_arch("sm_90a")).config);
  const std::string text = source.text(), emulated = emulated_text(source);
  const auto line_of = [](const std::string& in, std::size_t at) {
    return std::count(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
  };
  for (const SourcePart& part : source.parts) {
    if (part.name == "ptx.cuh") continue;
    INFO(part.name);
    const std::string directive =
        "#line " + std::to_string(line_of(text, text.find(part.text))) + " \"generated.cu\"\n" + part.text;
    CHECK(emulated.find(directive) != std::string::npos);
  }
}

TEST_CASE("A read that no barrier orders after the write is a race, and with the barrier it is none") {
  const auto kernel = [](bool barrier) {
    return [barrier] {
      store(kBase + static_cast<u32>(thread()) * 4, 7);
      if (barrier) ptx().bar(0, 64, 1);
      load(kBase + static_cast<u32>((thread() + 32) % 64) * 4);
    };
  };
  CHECK(findings_of({1, 64, 256}, kernel(false)).count("race-RAW") == 1);
  CHECK(findings_of({1, 64, 256}, kernel(true)) == Kinds{});
}

TEST_CASE("A write that overtakes another warp's read is a race") {
  CHECK(findings_of({1, 64, 256}, [] {
          if (thread() == 0) store(kBase, 7);
          ptx().bar(0, 64, 1);
          if (thread() == 40) load(kBase);
          if (thread() == 1) store(kBase, 8);
        }).count("race-WAR") == 1);
}

TEST_CASE("Shared memory that nobody has written is not read unnoticed") {
  CHECK(findings_of({1, 32, 256}, [] { load(kBase + 16); }) == Kinds{"uninitialised"});
}

TEST_CASE("An access outside the CTA's shared memory, or misaligned, ends the run") {
  CHECK(findings_of({1, 32, 256}, [] { store(kBase + 256, 1); }) == Kinds{"shared-oob"});
  CHECK(findings_of({1, 32, 256}, [] { store(kBase - 4, 1); }) == Kinds{"shared-oob"});
  CHECK(findings_of({1, 32, 256}, [] { store(kBase + 2, 1); }) == Kinds{"misaligned"});
}

TEST_CASE("Warps that wait for each other for ever are a deadlock that names them") {
  require_emulator();
  Report report;
  launch(
      {1, 64, 64}, {.seed = 1}, [] { ptx().bar(thread() < 32 ? 1 : 2, 64, 1); }, report);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == "deadlock");
  CHECK_THAT(report.findings[0].text, contains("32 lanes in bar.sync of barrier 1, 32 of 64 threads there"));
}

TEST_CASE("An endless loop of polls ends at the limit of steps") {
  GlobalBuffer flag(4, "flag", GlobalBuffer::Access::read_write);
  const u32 zero = 0;
  flag.fill(&zero, 4);
  CHECK(findings_of({1, 32, 0}, [&] {
          u32 value = 0;
          while (value == 0) ptx().ld_global(&value, flag.data(), 4, kGlobalReadRelaxed);
        }) == Kinds{"endless"});
}

TEST_CASE("Copies are read only after a wait, and only those that the wait covers") {
  GlobalBuffer source(64, "source", GlobalBuffer::Access::read_only);
  const std::array<u32, 16> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  source.fill(values.data(), 64);
  const auto kernel = [&](int pending) {
    return [&source, pending] {
      if (thread() != 0) return;
      const char* from = static_cast<const char*>(source.data());
      ptx().cp_async(kBase, from, 16);
      ptx().cp_async_commit_group();
      ptx().cp_async(kBase + 16, from + 16, 16);
      ptx().cp_async_commit_group();
      ptx().cp_async_wait_group(pending);
      load(kBase);
      load(kBase + 16);
      ptx().cp_async_wait_group(0);
    };
  };
  CHECK(findings_of({1, 32, 64}, kernel(0)) == Kinds{});
  CHECK(findings_of({1, 32, 64}, kernel(1)) == Kinds{"read-before-cp.async"});
  CHECK(findings_of({1, 32, 64}, [&] {
          ptx().cp_async(kBase, source.data(), 16);
        }).count("exit-with-cp.async-pending") == 1);
}

TEST_CASE("Two CTAs may add to one word, and nothing else") {
  GlobalBuffer sums(64, "sums", GlobalBuffer::Access::read_write);
  const std::array<float, 16> zeros = {};
  const auto kinds = [&](const std::function<void()>& kernel) {
    sums.fill(zeros.data(), 64);
    return findings_of({4, 32, 0}, kernel);
  };
  const float one = 1.0f;
  float read = 0;
  CHECK(kinds([&] {
          if (thread() == 0) ptx().red_f32(sums.data(), &one, 1);
        }) == Kinds{});
  CHECK(static_cast<float*>(sums.data())[0] == 16.0f);  // 4 seeds of 4 CTAs
  CHECK(kinds([&] {
          if (thread() == 0) ptx().st_global(sums.data(), &one, 4);
        }) == Kinds{"global-race"});
  CHECK(kinds([&] {
          if (thread() != 0) return;
          if (ptx().thread->block_index.x == 1) {
            ptx().ld_global(&read, sums.data(), 4, kGlobalRead);
          } else {
            ptx().red_f32(sums.data(), &one, 1);
          }
        }) == Kinds{"global-race"});
}

TEST_CASE("What ld.global.nc has read is not written in the same launch") {
  GlobalBuffer data(64, "data", GlobalBuffer::Access::read_write);
  const std::array<u32, 16> zeros = {};
  data.fill(zeros.data(), 64);
  CHECK(findings_of({1, 32, 0}, [&] {
          if (thread() != 0) return;
          u32 value;
          ptx().ld_global(&value, data.data(), 4, kGlobalReadNc);
          ptx().st_global(data.data(), &value, 4);
        }) == Kinds{"nc-of-written"});
}

TEST_CASE("Tensors are guarded to the byte, and inputs against writes") {
  GlobalBuffer odd(20, "odd", GlobalBuffer::Access::read_write),
      input(16, "input", GlobalBuffer::Access::read_only);
  const u32 value = 1;
  char* bytes = static_cast<char*>(odd.data());
  CHECK(findings_of({1, 32, 0}, [&] { ptx().st_global(bytes + 20, &value, 4); }) == Kinds{"global-oob"});
  CHECK(findings_of({1, 32, 0}, [&] { ptx().st_global(bytes - 4, &value, 4); }) == Kinds{"global-oob"});
  CHECK(findings_of({1, 32, 0}, [&] { ptx().st_global(input.data(), &value, 4); }) ==
        Kinds{"global-read-only"});
  CHECK(findings_of({1, 32, 0}, [&] {
          volatile char* beyond = bytes + 4096;
          *beyond = 1;
        }) == Kinds{"access-violation"});
}

TEST_CASE("Lanes of a warp that meet in different operations end the run") {
  CHECK(findings_of({1, 32, 0}, [] {
          if (thread() < 16) {
            ptx().ballot(~0u, 1);
          } else {
            ptx().syncwarp(~0u);
          }
        }) == Kinds{"divergent-collective"});
  CHECK(findings_of({1, 32, 0}, [] {
          if (thread() != 3) ptx().ballot(~0u, 1);
        }) == Kinds{"divergent-collective"});
}

TEST_CASE("An mbarrier whose arrivals run two phases ahead is reported") {
  CHECK(findings_of({1, 64, 64}, [] {
          if (thread() == 0) ptx().mbarrier_init(kBase, 1);
          ptx().bar(0, 64, 1);
          if (thread() == 32) {
            ptx().mbarrier_arrive(kBase);
            ptx().mbarrier_arrive(kBase);
          }
          ptx().bar(0, 64, 1);
          if (thread() == 0) ptx().mbarrier_wait_parity(kBase, 1);
        }).count("mbarrier-lapped") == 1);
}

TEST_CASE("The same seed is the same run, and another seed another") {
  require_emulator();
  const auto order = [](std::uint64_t seed) {
    Report report;
    std::vector<int> threads;
    launch(
        {6, 128, 1024}, {.seed = seed, .virtual_sms = 3},
        [&] {
          threads.push_back(thread());
          ptx().bar(0, 128, 1);
          threads.push_back(thread());
        },
        report);
    return threads;
  };
  CHECK(order(5) == order(5));
  CHECK(order(4) != order(6));
  CHECK(order(5) != order(7));
}

TEST_CASE("Grids that the emulator cannot run are refused by name") {
  Report report;
  CHECK_THROWS_WITH(launch(
                        {1, 48, 0}, {}, [] {}, report),
                    contains("not of 48"));
  CHECK_THROWS_WITH(launch(
                        {1, 32, 300000}, {}, [] {}, report),
                    contains("300000 bytes of shared memory"));
  CHECK_THROWS_WITH(launch(
                        {1, 32, 0}, {.virtual_sms = 9}, [] {}, report),
                    contains("virtual_sms = 9"));
}

TEST_CASE("A planted race is reported with the line of the generated text, as a person reads it") {
  require_host_compiler();
  const Problem problem = {.heads = 64};
  const Config config = choose_config(problem, parse_arch("sm_90a")).config;
  KernelSource source = generate(problem, config);
  for (SourcePart& part : source.parts) {
    const auto at = part.text.find("    bar_sync(SCORE_ONLY, 128);\n");
    if (at != std::string::npos)
      part.text.replace(at, std::string_view("    bar_sync(SCORE_ONLY, 128);").size(), "");
  }
  const CpuSubject subject(problem, config, source);
  const HostTensors tensors = make_inputs(problem, {.queries = 1, .keys = 100, .topk = 100}, 1);
  const CpuVerdict verdict = run_subject(subject, tensors, backward(problem, tensors), OrderRequest::callers,
                                         {.seed = 2, .virtual_sms = 1, .step_limit = 1'000'000});
  const std::string text = emulator::describe(verdict.report);
  std::printf("The barrier among the score warps left out:\n%s", text.c_str());
  REQUIRE(verdict.report.has("race-RAW"));
  CHECK_THAT(text, contains("backward: CTA 0 warp"));
  CHECK_THAT(text, contains("(backward_wgmma.cuh) `wgmma_n64_ss<1, 1>(d, mn_major(Shared::ds"));
  CHECK_THAT(text, contains("is not ordered after the write of warp"));
}
