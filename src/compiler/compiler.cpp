#include "compiler/compiler.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "base/error.h"
#include "compiler/elf_sections.h"
#include "compiler/nvrtc_library.h"
#include "compiler/nvrtc_search.h"
#include "compiler/ptxas_log.h"

namespace smla::core {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kErrorsShown = 5;

std::string version_name(int major, int minor) {
  return fmt::format("NVRTC {}.{}", major, minor);
}

// Processor time of this thread, in seconds. NVRTC compiles in the thread that calls it.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct DestroyProgram {
  const NvrtcLibrary* library;
  void operator()(NvrtcProgram* program) const { library->destroy_program(&program); }
};
using Program = std::unique_ptr<NvrtcProgram, DestroyProgram>;

void check(const NvrtcLibrary& library, int result, const char* call) {
  if (result != kNvrtcSuccess) {
    fail(Status::internal_error, "{} of {} ({}) failed: {}", call, version_name(library.major, library.minor),
         library.path, library.error_string(result));
  }
}

// Whether this NVRTC is of an age to know the arch. Only the suffix of sm_90 came later than its number:
// sm_90 with CUDA 11.8, sm_90a with 12.0.
bool knows(const NvrtcLibrary& library, const Arch& arch) {
  const auto& numbers = library.arch_numbers;
  if (std::find(numbers.begin(), numbers.end(), arch.number) == numbers.end()) return false;
  return !arch.features || library.major >= 12;
}

[[noreturn]] void fail_too_old(const NvrtcLibrary& library, const Arch& arch, const std::string& log) {
  fail(Status::no_compiler,
       "{} ({}) does not compile for {}; it knows sm_{}. Set SMLA_NVRTC to a newer libnvrtc.so{}{}",
       version_name(library.major, library.minor), library.path, name(arch),
       fmt::join(library.arch_numbers, ", sm_"), log.empty() ? "" : ". Its log: ", log);
}

// A word of a shell command: in quotes when it holds anything but ordinary characters.
std::string shell_word(const std::string& text) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./=,:@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string as_file_name(std::string text) {
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

// By way of a temporary name: processes that fail alike write the same file. Returns an empty string, or the
// reason.
std::string write_whole(const fs::path& file, const std::string& text) {
  const fs::path temporary = fmt::format("{}.{}", file.string(), getpid());
  std::ofstream stream(temporary, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  stream.close();
  std::error_code error;
  if (!stream) {
    fs::remove(temporary, error);
    return "cannot be written";
  }
  fs::rename(temporary, file, error);
  return error ? error.message() : "";
}

// The sentence about where the failed source lies.
std::string keep_failed(const fs::path& directory, const std::string& stem, const std::string& text,
                        const std::string& log, const Arch& arch) {
  if (directory.empty()) return "The source was not kept (no directory for it)";
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    fs::create_directories(directory.parent_path(), error);
    mkdir(directory.c_str(), 0700);  // its failure shows below, with the file's name
  }
  const fs::path file = directory / (as_file_name(stem) + ".cu");
  const std::string fault = write_whole(file, text);
  if (!fault.empty()) return fmt::format("The source was not kept: {}: {}", file.string(), fault);
  write_whole(directory / (as_file_name(stem) + ".log"),
              log);  // a convenience: the errors are in the message
  return fmt::format("The source is {}; this line reproduces it: {}", file.string(),
                     nvcc_command(file, arch));
}

using TextSize = int (*)(NvrtcProgram*, std::size_t*);
using TextRead = int (*)(NvrtcProgram*, char*);

std::vector<char> bytes_of(const NvrtcLibrary& library, const Program& program, TextSize size, TextRead read,
                           const char* call) {
  std::size_t bytes = 0;
  check(library, size(program.get(), &bytes), call);
  std::vector<char> result(bytes);
  if (bytes > 0) check(library, read(program.get(), result.data()), call);
  return result;
}

std::string text_of(const std::vector<char>& bytes) {
  return {bytes.begin(), std::find(bytes.begin(), bytes.end(), '\0')};
}

struct Compiled {
  Program program;
  std::string log;
};

Compiled run_nvrtc(const NvrtcLibrary& library, const KernelSource& source, const Arch& arch,
                   const std::vector<std::string>& options, const fs::path& failure_directory) {
  if (!knows(library, arch)) fail_too_old(library, arch, "");
  const std::string text = source.text();
  const std::string file_name = source.name + ".cu";
  NvrtcProgram* created = nullptr;
  check(library, library.create_program(&created, text.c_str(), file_name.c_str(), 0, nullptr, nullptr),
        "nvrtcCreateProgram");
  Compiled compiled{Program(created, DestroyProgram{&library}), ""};

  std::vector<const char*> words;
  for (const auto& option : options) words.push_back(option.c_str());
  // From 12.9 on NVRTC has a cache of its own beside the driver's; what it returns from there has no log, and
  // so no resource report. Ours knows more, and prewarming must not depend on another.
  if (library.major > 12 || (library.major == 12 && library.minor >= 9)) words.push_back("--no-cache");
  const int result =
      library.compile_program(compiled.program.get(), static_cast<int>(words.size()), words.data());
  compiled.log =
      text_of(bytes_of(library, compiled.program, library.log_size, library.log, "nvrtcGetProgramLog"));
  if (result == kNvrtcSuccess) return compiled;

  if (result == kNvrtcInvalidOption && compiled.log.find("gpu-architecture") != std::string::npos) {
    fail_too_old(library, arch, compiled.log);
  }
  if (compiled.log.find("libnvrtc-builtins") != std::string::npos) {
    fail(Status::no_compiler,
         "{} ({}) does not find its built-in headers, libnvrtc-builtins.so.{}.{}: they belong beside it, or "
         "on the "
         "dynamic linker's path. Its log: {}",
         version_name(library.major, library.minor), library.path, library.major, library.minor,
         compiled.log);
  }
  const auto errors = reported_errors(compiled.log, kErrorsShown);
  fail(Status::compile_failed, "{} ({}) refused {} for {}: {}. {}. First errors:\n  {}",
       version_name(library.major, library.minor), library.path, source.name, name(arch),
       library.error_string(result),
       keep_failed(failure_directory, source.name + "-" + name(arch), text, compiled.log, arch),
       fmt::join(errors, "\n  "));
}

// What the log reports, with the size of each kernel's instructions from the image. Kernels of the image that
// the log does not mention are listed too, with a warning: a later ptxas may word its report differently.
void describe_kernels(Cubin& cubin) {
  constexpr std::string_view kCode = ".text.";
  cubin.kernels = reported_resources(cubin.log);
  cubin.warnings = reported_warnings(cubin.log);
  for (const auto& section : elf_sections({cubin.image.data(), cubin.image.size()})) {
    if (section.name.rfind(kCode, 0) != 0) continue;
    const std::string kernel = section.name.substr(kCode.size());
    auto found = std::find_if(cubin.kernels.begin(), cubin.kernels.end(),
                              [&](const KernelResources& resources) { return resources.name == kernel; });
    if (found == cubin.kernels.end()) {
      if (cubin.log.find("Function properties for " + kernel + "\n") != std::string::npos)
        continue;  // not a kernel
      cubin.warnings.push_back(fmt::format("{} reported no resources of {}", cubin.compiler, kernel));
      cubin.kernels.push_back({.name = kernel});
      found = cubin.kernels.end() - 1;
    }
    found->code_bytes = static_cast<std::int64_t>(section.bytes);
  }
}

}  // namespace

std::string CompilerVersion::name() const {
  return version_name(major, minor);
}

std::string CompilerVersion::identity() const {
  constexpr std::size_t kDigits = 16;  // enough to tell builds apart, and short enough to read
  return build.empty() ? name() : fmt::format("{} build {}", name(), build.substr(0, kDigits));
}

CompilerVersion compiler_version() {
  const NvrtcLibrary& library = nvrtc_library();
  return {library.major, library.minor, library.build, library.path};
}

CompilerSearch compiler_search() {
  const auto candidates = nvrtc_candidates([](const char* variable) { return std::getenv(variable); });
  return {nvrtc_search(candidates), is_nvrtc_loaded(candidates)};
}

std::vector<int> compiler_arch_numbers() {
  return nvrtc_library().arch_numbers;
}

std::vector<std::string> compile_options(const Arch& arch) {
  return {"--gpu-architecture=" + name(arch), "--std=c++17", "--ptxas-options=-v",
          "--ptxas-options=--warn-on-spills"};  // NVRTC takes one option of ptxas at a time
}

std::string nvcc_command(const fs::path& file, const Arch& arch) {
  fs::path cubin = file;
  cubin.replace_extension(".cubin");
  return fmt::format("nvcc -cubin -arch={} -std=c++17 -Xptxas=-v,--warn-on-spills -o {} {}", name(arch),
                     shell_word(cubin.string()), shell_word(file.string()));
}

Cubin compile(const KernelSource& source, const Arch& arch, const fs::path& failure_directory) {
  const NvrtcLibrary& library = nvrtc_library();
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = thread_seconds();
  auto compiled = run_nvrtc(library, source, arch, compile_options(arch), failure_directory);
  Cubin cubin;
  cubin.arch = name(arch);
  cubin.image = bytes_of(library, compiled.program, library.cubin_size, library.cubin, "nvrtcGetCUBIN");
  cubin.compiler = version_name(library.major, library.minor);
  cubin.log = std::move(compiled.log);
  describe_kernels(cubin);
  cubin.compile_cpu_seconds = thread_seconds() - cpu_start;
  cubin.compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return cubin;
}

std::string compile_to_ptx(const KernelSource& source, const Arch& arch, const fs::path& failure_directory) {
  const NvrtcLibrary& library = nvrtc_library();
  const std::string virtual_arch = "compute" + name(arch).substr(2);  // sm_90a -> compute_90a
  const auto compiled = run_nvrtc(library, source, arch,
                                  {"--gpu-architecture=" + virtual_arch, "--std=c++17"}, failure_directory);
  return text_of(bytes_of(library, compiled.program, library.ptx_size, library.ptx, "nvrtcGetPTX"));
}

}  // namespace smla::core
