#include "compiler/compiler.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "catch.h"
#include "child.h"
#include "compiler/elf_sections.h"
#include "compiler/nvrtc_library.h"
#include "compiler/ptxas_log.h"
#include "fake_compiler.h"
#include "temporary_directory.h"

using namespace smla::core;
using smla_test::contains;

namespace {

KernelSource source_of(const std::string& name, const std::string& text) {
  KernelSource source;
  source.name = name;
  source.parts = {{"entries", text}};
  return source;
}

// Two kernels: 64 live values under a limit of 32 registers a thread must spill; the other one has nothing to
// spill.
KernelSource spilling_source() {
  return source_of("spill", R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float* p) {
  __shared__ float s[100];
  float a[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) a[i] = p[i * 1024 + threadIdx.x];
#pragma unroll 1
  for (int k = 0; k < 10; ++k) {
#pragma unroll
    for (int i = 0; i < 64; ++i) a[i] = a[i] * a[(i + 7) % 64] + p[k];
  }
  s[threadIdx.x % 100] = a[3];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) p[i * 1024 + threadIdx.x] = a[i] + s[i];
}
extern "C" __global__ void plain(float* p) { p[0] = 1; }
)");
}

// setmaxnreg without a known register count at entry, and an accumulator that is read between two wgmmas.
KernelSource serialised_source() {
  return source_of("serialised", R"(
extern "C" __global__ void __launch_bounds__(384, 1) serialised(float* p, unsigned long long d) {
  float a0 = p[0], a1 = p[1], a2 = p[2], a3 = p[3];
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %4, 1, 1, 1, 0, 0;"
               : "+f"(a0), "+f"(a1), "+f"(a2), "+f"(a3) : "l"(d));
  a0 += 1;
  p[7] = a0;
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %4, 1, 1, 1, 0, 0;"
               : "+f"(a0), "+f"(a1), "+f"(a2), "+f"(a3) : "l"(d));
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  p[0] = a0; p[1] = a1; p[2] = a2; p[3] = a3;
}
extern "C" __global__ void unbounded(float* p) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  p[0] = 2;
}
)");
}

const KernelResources& resources_of(const Cubin& cubin, const std::string& name) {
  for (const auto& kernel : cubin.kernels) {
    if (kernel.name == name) return kernel;
  }
  throw std::runtime_error("no kernel " + name);
}

bool any_contains(const std::vector<std::string>& lines, const std::string& part) {
  for (const auto& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void require_nvrtc() {
  try {
    compiler_version();
  } catch (const Error& error) {
    SKIP("no NVRTC on this machine");
  }
}

// The message of the Error that `work` throws in a child with SMLA_NVRTC set, led by its status.
template <class Work>
std::string error_with_nvrtc(const std::string& nvrtc, Work work) {
  return smla_test::in_child([&]() -> std::string {
           setenv("SMLA_NVRTC", nvrtc.c_str(), 1);
           try {
             work();
           } catch (const Error& error) {
             return std::string(status_name(error.status())) + "|" + error.what();
           }
           return "no error";
         })
      .output;
}

}  // namespace

TEST_CASE("a missing NVRTC is an error that names every path tried") {
  const auto compiling = [] { compile(spilling_source(), parse_arch("sm_80")); };
  SECTION("as a file") {
    const auto message = error_with_nvrtc("/nowhere/libnvrtc.so.13", compiling);
    REQUIRE_THAT(message, contains("no compiler|smla: NVRTC"));
    REQUIRE_THAT(message, contains("/nowhere/libnvrtc.so.13"));
    REQUIRE_THAT(message, contains("SMLA_NVRTC"));
  }
  SECTION("as a directory") {
    const smla_test::TemporaryDirectory empty;
    const auto message = error_with_nvrtc(empty.path().string(), compiling);
    for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
      REQUIRE_THAT(message, contains((empty.path() / file).string() + ": "));
    }
  }
  SECTION("as a library that is something else") {
    REQUIRE_THAT(error_with_nvrtc("libc.so.6", compiling), contains("libc.so.6: it lacks functions"));
  }
}

TEST_CASE("a missing NVRTC can appear later in the same process") {
  const smla_test::TemporaryDirectory directory;
  const auto file = directory.path() / "libnvrtc.so.13";
  const auto child = smla_test::in_child([&]() -> std::string {
    setenv("SMLA_NVRTC", file.c_str(), 1);
    try {
      compiler_version();
      return "found too early";
    } catch (const Error&) {
    }
    std::filesystem::create_symlink(SMLA_FAKE_NVRTC, file);
    return compiler_version().name() + " " + compiler_version().library;
  });
  REQUIRE(child.output == "NVRTC 11.8 " + file.string());
}

TEST_CASE("NVRTC is looked for in a fixed order") {
  const auto with = [](const std::string& variable, const std::string& value) {
    return nvrtc_candidates(
        [=](const char* name) -> const char* { return name == variable ? value.c_str() : nullptr; });
  };
  SECTION("the dynamic linker's path comes first, newest version first") {
    const auto candidates = with("", "");
    REQUIRE(candidates.size() >= 2);
    REQUIRE(candidates[0] == "libnvrtc.so.13");
    REQUIRE(candidates[1] == "libnvrtc.so.12");
  }
  SECTION("CUDA_HOME is tried and reported even when it does not exist") {
    REQUIRE(with("CUDA_HOME", "/nowhere/cuda").at(2) == "/nowhere/cuda/lib64/libnvrtc.so.13");
  }
  SECTION("the wheels of a virtual environment are found") {
    const smla_test::TemporaryDirectory prefix;
    const auto cu13 = prefix.path() / "lib/python3.11/site-packages/nvidia/cu13/lib";
    const auto cu12 = prefix.path() / "lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib";
    std::filesystem::create_directories(cu13);
    std::filesystem::create_directories(cu12);
    const auto candidates = with("VIRTUAL_ENV", prefix.path().string());
    const auto at = [&](const std::filesystem::path& path) {
      return std::find(candidates.begin(), candidates.end(), path.string()) - candidates.begin();
    };
    REQUIRE(at(cu13 / "libnvrtc.so.13") < static_cast<std::ptrdiff_t>(candidates.size()));
    REQUIRE(at(cu12 / "libnvrtc.so.12") < static_cast<std::ptrdiff_t>(candidates.size()));
    REQUIRE(at(cu13 / "libnvrtc.so.13") < at(cu12 / "libnvrtc.so.12"));
  }
  SECTION("SMLA_NVRTC excludes everything else") {
    REQUIRE(with("SMLA_NVRTC", "/nowhere/x.so") == std::vector<std::string>{"/nowhere/x.so"});
  }
}

TEST_CASE("C52: an NVRTC too old for an arch is named with its path, its version and the arch") {
  const auto message =
      error_with_nvrtc(SMLA_FAKE_NVRTC, [] { compile(spilling_source(), parse_arch("sm_90a")); });
  REQUIRE_THAT(message, contains("no compiler|"));
  REQUIRE_THAT(message, contains("NVRTC 11.8"));
  REQUIRE_THAT(message, contains(SMLA_FAKE_NVRTC));
  REQUIRE_THAT(message, contains("sm_90a"));
  REQUIRE_THAT(message, contains("sm_80, sm_86, sm_89, sm_90."));
  REQUIRE_THAT(error_with_nvrtc(SMLA_FAKE_NVRTC,
                                [] {
                                  compile(spilling_source(), Arch{100, false});
                                }),
               contains("sm_100;"));
  // sm_90 is known to it: the compilation is attempted, and fails for its own reason.
  REQUIRE_THAT(error_with_nvrtc(SMLA_FAKE_NVRTC, [] { compile(spilling_source(), parse_arch("sm_90")); }),
               contains("compile failed|"));
}

TEST_CASE(
    "a kernel that the compiler's log does not mention is listed with its code, and a warning says so") {
  const smla_test::TemporaryDirectory directory;
  const auto image = directory.path() / "image";
  smla_test::write_in_place(
      image, smla_test::elf_with_sections({".text.told", ".text.silent", ".text.called", ".data"}, 48));
  const auto child = smla_test::in_child([&]() -> std::string {
    setenv("SMLA_NVRTC", SMLA_FAKE_NVRTC, 1);
    setenv("SMLA_FAKE_NVRTC_IMAGE", image.c_str(), 1);
    setenv("SMLA_FAKE_NVRTC_LOG",
           "ptxas info    : Compiling entry function 'told' for 'sm_80'\n"
           "ptxas info    : Function properties for told\n"
           "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
           "ptxas info    : Used 24 registers\n"
           "ptxas info    : Function properties for called\n",
           1);
    const Cubin cubin = compile(spilling_source(), parse_arch("sm_80"));
    std::string said;
    for (const auto& kernel : cubin.kernels) {
      said += fmt::format("{} {} {}; ", kernel.name, kernel.registers, kernel.code_bytes);
    }
    return said + fmt::format("{}", fmt::join(cubin.warnings, "; "));
  });
  REQUIRE(child.output == "told 24 48; silent 0 48; NVRTC 11.8 reported no resources of silent");
}

TEST_CASE("NVRTC's own cache is passed by where it has one, from 12.9 on") {
  const smla_test::TemporaryDirectory directory;
  const auto image = directory.path() / "image", words = directory.path() / "words";
  smla_test::write_in_place(image, smla_test::elf_with_sections({".text.k"}, 16));
  const auto options_of = [&](const char* version) {
    std::filesystem::remove(words);
    smla_test::in_child([&]() -> std::string {
      setenv("SMLA_NVRTC", SMLA_FAKE_NVRTC, 1);
      setenv("SMLA_FAKE_NVRTC_VERSION", version, 1);
      setenv("SMLA_FAKE_NVRTC_IMAGE", image.c_str(), 1);
      setenv("SMLA_FAKE_NVRTC_WORDS", words.c_str(), 1);
      compile(spilling_source(), parse_arch("sm_80"));
      return "";
    });
    return content_of(words);
  };
  std::string plain;
  for (const auto& option : compile_options(parse_arch("sm_80"))) plain += option + "\n";
  for (const char* version : {"11.8", "12.0", "12.8"}) CHECK(options_of(version) == plain);
  for (const char* version : {"12.9", "13.0", "13.1"}) CHECK(options_of(version) == plain + "--no-cache\n");
}

TEST_CASE("two builds of one NVRTC version have two identities and one name") {
  const smla_test::TemporaryDirectory directory;
  const auto told = [&](const std::string& bytes) {
    const auto file = directory.path() / "libnvrtc.so.13";
    smla_test::write_in_place(file, bytes);
    return smla_test::in_child([&]() -> std::string {
             setenv("SMLA_NVRTC", file.c_str(), 1);
             return compiler_version().name() + "; " + compiler_version().identity();
           })
        .output;
  };
  CHECK(told(content_of(SMLA_FAKE_NVRTC)) == "NVRTC 11.8; NVRTC 11.8 build 0123456789abcdef");
  CHECK(told(smla_test::fake_nvrtc_of_build('7')) == "NVRTC 11.8; NVRTC 11.8 build 7777777777777777");
  CHECK(CompilerVersion{.major = 13, .minor = 0, .build = "", .library = "x"}.identity() == "NVRTC 13.0");
}

TEST_CASE("the built-in headers beside an NVRTC are found, wherever it lies") {
  const smla_test::TemporaryDirectory directory;
  const auto library = directory.path() / "libnvrtc.so.13";
  smla_test::write_in_place(library, content_of(SMLA_FAKE_NVRTC));
  const auto mapped = [&] {
    return smla_test::in_child([&]() -> std::string {
             setenv("SMLA_NVRTC", directory.path().c_str(), 1);
             const std::string name = compiler_version().name();
             return name + (smla_test::is_mapped("libnvrtc-builtins.so.11.8") ? ", with builtins" : "");
           })
        .output;
  };
  CHECK(mapped() == "NVRTC 11.8");
  smla_test::write_in_place(directory.path() / "libnvrtc-builtins.so.11.8", content_of(SMLA_FAKE_NVRTC));
  CHECK(mapped() == "NVRTC 11.8, with builtins");
}

TEST_CASE("an NVRTC without its built-in headers is no compiler") {
  const auto child = smla_test::in_child([&]() -> std::string {
    setenv("SMLA_NVRTC", SMLA_FAKE_NVRTC, 1);
    setenv("SMLA_FAKE_NVRTC_LOG", "nvrtc: error: failed to open libnvrtc-builtins.so.11.8.", 1);
    try {
      compile(spilling_source(), Arch{80, false});
    } catch (const Error& error) {
      return std::string(status_name(error.status())) + ": " + error.what();
    }
    return "compiled";
  });
  CHECK_THAT(child.output,
             contains("no compiler: ") && contains("libnvrtc-builtins.so.11.8: they belong beside it"));
}

TEST_CASE("C52: an arch that this NVRTC does not know is refused with those it knows") {
  require_nvrtc();
  try {
    compile(spilling_source(), Arch{250, true});
    FAIL("sm_250a was compiled");
  } catch (const Error& error) {
    REQUIRE(error.status() == Status::no_compiler);
    REQUIRE_THAT(error.what(), contains("sm_250a"));
    REQUIRE_THAT(error.what(), contains(compiler_version().library));
    REQUIRE_THAT(error.what(), contains("sm_80"));
  }
}

TEST_CASE("kernels compile to machine code without a GPU") {
  require_nvrtc();
  for (const char* arch : {"sm_80", "sm_90a", "sm_120"}) {
    CAPTURE(arch);
    const Cubin cubin = compile(source_of("two", R"(
extern "C" __global__ void first(float* p) { p[threadIdx.x] *= 2; }
extern "C" __global__ void second(float* p) { __shared__ float s[64]; s[threadIdx.x] = p[0]; __syncthreads(); p[1] = s[3]; }
)"),
                                parse_arch(arch));
    REQUIRE(cubin.arch == arch);
    REQUIRE(cubin.compiler == compiler_version().name());
    REQUIRE(cubin.kernels.size() == 2);
    REQUIRE(resources_of(cubin, "second").shared_bytes == 256);
    REQUIRE(resources_of(cubin, "first").shared_bytes == 0);
    REQUIRE(cubin.warnings.empty());
    REQUIRE(cubin.compile_seconds > 0);
    REQUIRE(cubin.compile_cpu_seconds > 0);
    for (const auto& kernel : cubin.kernels) {
      REQUIRE(kernel.registers > 0);
      REQUIRE(kernel.spill_store_bytes == 0);
      REQUIRE(kernel.code_bytes > 0);
      REQUIRE(kernel.code_bytes < static_cast<std::int64_t>(cubin.image.size()));
    }
  }
}

TEST_CASE("the same source compiles to the same bytes") {
  require_nvrtc();
  const Arch arch = parse_arch("sm_90a");
  REQUIRE(compile(spilling_source(), arch).image == compile(spilling_source(), arch).image);
}

TEST_CASE("a kernel that spills says so in its resources and as a warning") {
  require_nvrtc();
  const Cubin cubin = compile(spilling_source(), parse_arch("sm_80"));
  const KernelResources spilling = resources_of(cubin, "spilling");
  REQUIRE(spilling.registers == 32);  // 65536 registers / (2 CTAs of 1024 threads)
  REQUIRE(spilling.spill_store_bytes > 0);
  REQUIRE(spilling.spill_load_bytes > 0);
  REQUIRE(spilling.stack_bytes > 0);
  REQUIRE(spilling.shared_bytes == 400);
  REQUIRE(resources_of(cubin, "plain").spill_store_bytes == 0);
  REQUIRE(resources_of(cubin, "plain").stack_bytes == 0);
  REQUIRE(any_contains(cubin.warnings, "spilled to local memory in function 'spilling'"));
  REQUIRE_FALSE(any_contains(cubin.warnings, "'plain'"));
}

TEST_CASE("serialised wgmma and an ignored setmaxnreg are warnings") {
  require_nvrtc();
  const Cubin cubin = compile(serialised_source(), parse_arch("sm_90a"));
  REQUIRE(any_contains(cubin.warnings, "(C7508)"));
  REQUIRE(any_contains(cubin.warnings, "serialized"));
  REQUIRE_FALSE(any_contains(cubin.warnings, "Used "));
  for (const auto& warning : cubin.warnings) REQUIRE(warning.rfind("ptxas", 0) == std::string::npos);
}

TEST_CASE("PTX can be had for reading") {
  require_nvrtc();
  const std::string ptx = compile_to_ptx(spilling_source(), parse_arch("sm_90a"));
  REQUIRE_THAT(ptx, contains(".target sm_90a"));
  REQUIRE_THAT(ptx, contains(".entry spilling"));
}

TEST_CASE("a failed compile leaves its source and names the line that reproduces it") {
  require_nvrtc();
  const smla_test::TemporaryDirectory directory;
  const auto failures = directory.path() / "of this test" / "failed";
  const auto source = source_of("wrong", "extern \"C\" __global__ void f() { int x = undeclared; }\n");
  try {
    compile(source, parse_arch("sm_80"), failures);
    FAIL("it was compiled");
  } catch (const Error& error) {
    REQUIRE(error.status() == Status::compile_failed);
    const auto file = failures / "wrong-sm_80.cu";
    REQUIRE_THAT(error.what(), contains("\"undeclared\" is undefined"));
    REQUIRE_THAT(error.what(), contains(file.string() + ";"));
    REQUIRE_THAT(error.what(), contains(nvcc_command(file, parse_arch("sm_80"))));
    REQUIRE_THAT(error.what(), contains("'" + file.string() + "'"));  // quoted: its path has blanks
    REQUIRE(content_of(file) == source.text());
    REQUIRE_THAT(content_of(failures / "wrong-sm_80.log"), contains("1 error detected"));
    REQUIRE(std::distance(std::filesystem::directory_iterator(failures), {}) == 2);
  }
  SECTION("errors of ptxas are found too") {
    REQUIRE_THROWS_WITH(
        compile(source_of("wrong", "extern \"C\" __global__ void f() { asm volatile(\"foo.bar;\"); }"),
                parse_arch("sm_80")),
        contains("foo"));
  }
  SECTION("a directory that cannot be made is said, and the errors still come") {
    std::ofstream(directory.path() / "file") << "in the way";
    REQUIRE_THROWS_WITH(compile(source, parse_arch("sm_80"), directory.path() / "file" / "failed"),
                        contains("The source was not kept") && contains("undeclared"));
  }
}

TEST_CASE("threads may compile at the same time") {
  require_nvrtc();
  std::vector<Cubin> cubins(4);
  std::vector<std::thread> threads;
  for (auto& cubin : cubins) {
    threads.emplace_back([&cubin] { cubin = compile(spilling_source(), parse_arch("sm_80")); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& cubin : cubins) REQUIRE(cubin.image == cubins.front().image);
}

TEST_CASE("ptxas's report of a called function is not taken for its kernel's") {
  const auto kernels = reported_resources(
      "ptxas info    : Compiling entry function 'kk' for 'sm_90'\n"
      "ptxas info    : Function properties for kk\n"
      "ptxas         .     200 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 24 registers, used 1 barriers, 200 bytes cumulative stack size, 80 bytes smem\n"
      "ptxas info    : Function properties for _Z1gfi\n"
      "ptxas         .     16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n");
  REQUIRE(kernels.size() == 1);
  REQUIRE(kernels[0] == KernelResources{.name = "kk",
                                        .registers = 24,
                                        .spill_store_bytes = 8,
                                        .spill_load_bytes = 12,
                                        .stack_bytes = 200,
                                        .shared_bytes = 80});
}

TEST_CASE("damaged machine code is refused, never read past its end") {
  require_nvrtc();
  const Cubin cubin = compile(spilling_source(), parse_arch("sm_80"));
  const std::string image(cubin.image.begin(), cubin.image.end());
  REQUIRE(elf_sections(image).size() > 5);
  REQUIRE_THROWS_AS(elf_sections(""), Error);
  REQUIRE_THROWS_AS(elf_sections("\177ELF"), Error);
  REQUIRE_THROWS_AS(elf_sections(image.substr(0, 63)), Error);
  // Cut anywhere before the end of the section table's first entry, whose place the header gives at byte 40.
  std::uint64_t table = 0;
  std::memcpy(&table, image.data() + 40, sizeof table);
  REQUIRE(table > 64);
  for (std::size_t bytes = 64; bytes < table + 64; bytes += 61) {
    CAPTURE(bytes);
    REQUIRE_THROWS_AS(elf_sections(std::string_view(image).substr(0, bytes)), Error);
  }
  // Any byte may be wrong: an error or other sections, nothing else (the sanitizers look on).
  for (std::size_t at = 0; at < image.size(); at += at < 64 ? 1 : 37) {
    std::string damaged = image;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    try {
      elf_sections(damaged);
    } catch (const Error& error) {
      REQUIRE(error.status() == Status::internal_error);
    }
  }
}
