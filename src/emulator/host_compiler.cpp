#include "emulator/host_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "emulator/calls_table.h"
#include "emulator/emulated_text.h"

extern char** environ;

namespace smla::core::emulator {
namespace {

// Runs a command with its output in `log`; its exit code, or -1 when it could not be started.
int run(const std::vector<std::string>& command, const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::filesystem::path make_directory() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  std::string pattern = (parent / "smla-emulator-XXXXXX").string();
  if (error || !mkdtemp(pattern.data())) {
    fail(Status::invalid_argument, "no temporary directory {} can be made: {}; name another place in TMPDIR",
         pattern, error ? error.message() : std::strerror(errno));
  }
  return pattern;
}

std::string beginning_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  return text.substr(0, 2000);
}

// CXX may hold flags as well.
std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while ((at = command.find_first_not_of(' ', at)) != std::string::npos) {
    const auto end = command.find(' ', at);
    words.push_back(command.substr(at, end - at));
    if (end == std::string::npos) break;
    at = end;
  }
  return words;
}

}  // namespace

std::string find_host_compiler() {
  std::vector<std::string> candidates;
  if (const char* named = std::getenv("CXX"); named && !words_of(named).empty()) candidates.push_back(named);
  candidates.insert(candidates.end(), {"c++", "g++", "clang++"});
  std::string tried;
  for (const std::string& candidate : candidates) {
    std::vector<std::string> command = words_of(candidate);
    command.push_back("--version");
    if (run(command, "/dev/null") == 0) return candidate;
    tried += (tried.empty() ? "" : ", ") + candidate;
  }
  fail(Status::no_compiler,
       "kernels run on the CPU by way of a C++ compiler, and none was found (tried {}); install g++ or "
       "clang, or name one in "
       "CXX",
       tried);
}

std::unique_ptr<CompiledKernels> compile_for_host(const KernelSource& source) {
  const auto began = std::chrono::steady_clock::now();
  const std::string compiler = find_host_compiler();
  std::unique_ptr<CompiledKernels> kernels(new CompiledKernels);
  kernels->directory_ = make_directory();
  const auto text = kernels->directory_ / "kernels.cpp", library = kernels->directory_ / "kernels.so",
             log = kernels->directory_ / "log";
  std::ofstream(text) << emulated_text(source);

  // Without optimisation: half the time to compile (0.9 s of wgmma's kernels against 2 s), and as fast to run
  // within a tenth, since the work is done by the emulator. Each array keeps its place on the stack for as
  // long as its function runs: wgmmas write into it between statements.
  std::vector<std::string> command = words_of(compiler);
  const bool clang = compiler.find("clang") != std::string::npos;
  command.insert(command.end(),
                 {"-std=c++17", "-O0", "-g1", "-w", "-fPIC", "-shared", "-fno-strict-aliasing"});
  if (!clang) command.push_back("-fstack-reuse=none");
  command.insert(command.end(), {"-o", library.string(), text.string()});
  if (run(command, log) != 0) {
    fail(Status::compile_failed, "{} refused the text of {} for the CPU:\n{}", compiler, source.name,
         beginning_of(log));
  }
  kernels->library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!kernels->library_) {
    fail(Status::internal_error, "{} cannot be loaded: {}", library.string(), dlerror());
  }
  const auto attach = reinterpret_cast<void (*)(EmulatorCalls*)>(kernels->entry("smla_emulator_attach"));
  attach(calls_table());
  kernels->compile_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return kernels;
}

CompiledKernels::~CompiledKernels() {
  if (library_) dlclose(library_);
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

void* CompiledKernels::entry(const std::string& name) const {
  void* address = dlsym(library_, name.c_str());
  if (!address) fail(Status::internal_error, "the compiled kernels have no entry {}", name);
  return address;
}

unsigned CompiledKernels::cluster_size(const std::string& name) const {
  const void* size = dlsym(library_, (std::string(kClusterSizeOf) + name).c_str());
  return size ? *static_cast<const unsigned*>(size) : 1;
}

}  // namespace smla::core::emulator
