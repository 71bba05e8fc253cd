#include "compiler/nvrtc_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/error.h"
#include "compiler/build_id.h"

namespace smla::core {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

bool directory_exists(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

void add(std::vector<std::string>& candidates, const std::string& path) {
  if (std::find(candidates.begin(), candidates.end(), path) == candidates.end()) candidates.push_back(path);
}

void add_files_in(std::vector<std::string>& candidates, const fs::path& directory) {
  for (const char* file : kFileNames) add(candidates, (directory / file).string());
}

// lib64 is the toolkit installer's and conda's nvcc's, lib Debian's and the redistributable archives'.
void add_toolkit(std::vector<std::string>& candidates, const fs::path& root) {
  for (const char* lib : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"}) {
    if (directory_exists(root / lib)) add_files_in(candidates, root / lib);
  }
}

// The wheels of CUDA 13 share nvidia/cu13/lib; nvidia-cuda-nvrtc-cu12 has nvidia/cuda_nvrtc/lib.
void add_wheels_in(std::vector<std::string>& candidates, const fs::path& site_packages) {
  for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}) {
    if (directory_exists(site_packages / wheel)) add_files_in(candidates, site_packages / wheel);
  }
}

// <prefix>/lib/python3*/{site,dist}-packages
void add_wheels_of_prefix(std::vector<std::string>& candidates, const fs::path& prefix) {
  std::error_code error;
  std::vector<fs::path> pythons;
  for (const auto& entry : fs::directory_iterator(prefix / "lib", error)) {
    if (entry.path().filename().string().rfind("python3", 0) == 0) pythons.push_back(entry.path());
  }
  std::sort(pythons.begin(), pythons.end(), std::greater<>());  // directory order is the file system's own
  for (const auto& python : pythons) {
    add_wheels_in(candidates, python / "site-packages");
    add_wheels_in(candidates, python / "dist-packages");
  }
}

// /usr/local/cuda, then /usr/local/cuda-* from the newest name down.
std::vector<fs::path> installed_toolkits() {
  std::error_code error;
  std::vector<fs::path> versions;
  for (const auto& entry : fs::directory_iterator("/usr/local", error)) {
    if (entry.path().filename().string().rfind("cuda-", 0) == 0) versions.push_back(entry.path());
  }
  std::sort(versions.begin(), versions.end(), std::greater<>());
  versions.insert(versions.begin(), "/usr/local/cuda");
  return versions;
}

std::string set_value(const Environment& environment, const char* variable) {
  const char* value = environment(variable);
  return value ? value : "";
}

std::vector<std::string> named_candidates(const fs::path& named) {
  std::vector<std::string> candidates;
  if (!directory_exists(named)) return {named.string()};
  add_files_in(candidates, named);
  candidates.push_back((named / "libnvrtc.so").string());
  add_toolkit(candidates, named);
  add_wheels_in(candidates, named);
  return candidates;
}

template <class Function>
bool resolve(void* handle, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, symbol));
  return function != nullptr;
}

// Empty when the library is complete, else what is wrong with it.
std::string load_symbols(void* handle, NvrtcLibrary& library) {
  int (*version)(int*, int*) = nullptr;
  int (*arch_count)(int*) = nullptr;
  int (*archs)(int*) = nullptr;
  const bool complete =
      resolve(handle, "nvrtcVersion", version) && resolve(handle, "nvrtcGetNumSupportedArchs", arch_count) &&
      resolve(handle, "nvrtcGetSupportedArchs", archs) &&
      resolve(handle, "nvrtcGetErrorString", library.error_string) &&
      resolve(handle, "nvrtcCreateProgram", library.create_program) &&
      resolve(handle, "nvrtcDestroyProgram", library.destroy_program) &&
      resolve(handle, "nvrtcCompileProgram", library.compile_program) &&
      resolve(handle, "nvrtcGetProgramLogSize", library.log_size) &&
      resolve(handle, "nvrtcGetProgramLog", library.log) &&
      resolve(handle, "nvrtcGetCUBINSize", library.cubin_size) &&
      resolve(handle, "nvrtcGetCUBIN", library.cubin) &&
      resolve(handle, "nvrtcGetPTXSize", library.ptx_size) && resolve(handle, "nvrtcGetPTX", library.ptx);
  if (!complete) return "it lacks functions that NVRTC 11.2 and later have";
  int count = 0;
  if (version(&library.major, &library.minor) != kNvrtcSuccess || arch_count(&count) != kNvrtcSuccess ||
      count < 0) {
    return "it does not tell its version and architectures";
  }
  library.arch_numbers.resize(static_cast<std::size_t>(count));
  if (archs(library.arch_numbers.data()) != kNvrtcSuccess) return "it does not tell its architectures";
  return "";
}

std::string path_of(void* handle, const std::string& fallback) {
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name) return map->l_name;
  return fallback;
}

// NVRTC opens its built-in headers by bare name when it first compiles, which finds them only on the dynamic
// linker's path; a wheel's folder is not there. A copy that is loaded already is taken, so the one beside the
// library is loaded now. Where there is none the linker's path decides, and NVRTC's log says what is missing.
void open_builtins_beside(const NvrtcLibrary& library) {
  std::error_code error;
  const fs::path resolved = fs::canonical(library.path, error);
  const fs::path beside = (error ? fs::path(library.path) : resolved).parent_path();
  const fs::path builtins = beside / fmt::format("libnvrtc-builtins.so.{}.{}", library.major, library.minor);
  if (fs::exists(builtins, error)) (void)dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

std::vector<std::string> nvrtc_candidates(const Environment& environment) {
  const std::string named = set_value(environment, "SMLA_NVRTC");
  if (!named.empty()) return named_candidates(named);

  std::vector<std::string> candidates(std::begin(kFileNames), std::end(kFileNames));
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const fs::path root = set_value(environment, variable);
    if (root.empty()) continue;
    const std::size_t before = candidates.size();
    add_toolkit(candidates, root);
    if (candidates.size() == before) add_files_in(candidates, root / "lib64");  // so that the error names it
  }
  for (const auto& root : installed_toolkits()) add_toolkit(candidates, root);

  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (program.filename().string().rfind("python", 0) == 0) {
    add_wheels_of_prefix(candidates, program.parent_path().parent_path());
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = set_value(environment, variable);
    if (!prefix.empty()) add_wheels_of_prefix(candidates, prefix);
  }
  const std::string home = set_value(environment, "HOME");
  if (!home.empty()) add_wheels_of_prefix(candidates, fs::path(home) / ".local");
  add_wheels_of_prefix(candidates, "/usr/local");
  add_wheels_of_prefix(candidates, "/usr");
  return candidates;
}

const NvrtcLibrary& nvrtc_library() {
  static std::mutex mutex;
  static std::map<std::string, NvrtcLibrary> opened;  // by SMLA_NVRTC's value
  const Environment environment = [](const char* variable) { return std::getenv(variable); };
  const std::string named = set_value(environment, "SMLA_NVRTC");
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(named); found != opened.end()) return found->second;

  const auto candidates = nvrtc_candidates(environment);
  std::string tried;
  for (const auto& candidate : candidates) {
    void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string fault;
    if (handle) {
      NvrtcLibrary library;
      fault = load_symbols(handle, library);
      if (fault.empty()) {
        library.path = path_of(handle, candidate);
        library.build = build_id(handle);
        open_builtins_beside(library);
        return opened.emplace(named, std::move(library))
            .first->second;  // never closed: its functions are in use
      }
      dlclose(handle);
    } else {
      const char* reason = dlerror();
      fault = reason ? reason : "not found";
    }
    const bool says_path = fault.rfind(candidate, 0) == 0;  // dlerror leads with the path most of the time
    tried += says_path ? "\n  " + fault : fmt::format("\n  {}: {}", candidate, fault);
  }
  fail(Status::no_compiler,
       "NVRTC, the run-time compiler of CUDA 12.8 or later, was not found; set SMLA_NVRTC to libnvrtc.so.13 "
       "or to "
       "the directory that holds it (the wheel nvidia-cuda-nvrtc has it as well). Tried:{}",
       tried);
}

}  // namespace smla::core
