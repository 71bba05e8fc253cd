#include "disassembler.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <vector>

#include "answer.h"
#include "exit_codes.h"
#include "process.h"

namespace smla::core {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* variable_name) {
  const char* value = std::getenv(variable_name);
  return value ? value : "";
}

bool runnable(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

std::vector<fs::path> directories_in(const fs::path& parent, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (entry.path().filename().string().rfind(prefix, 0) == 0) found.push_back(entry.path());
  }
  std::sort(found.rbegin(), found.rend());  // the newest version first
  return found;
}

// Where wheels unpack their programs: below the site-packages of each Python whose bin directory PATH names.
std::vector<fs::path> wheel_directories(const fs::path& bin) {
  std::vector<fs::path> found;
  for (const fs::path& python : directories_in(bin.parent_path() / "lib", "python3")) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path site = python / packages;
      found.push_back(site / "nvidia" / "cu13" / "bin");
      found.push_back(site / "nvidia" / "cuda_nvcc" / "bin");
      found.push_back(site / "triton" / "backends" / "nvidia" / "bin");
    }
  }
  return found;
}

std::vector<fs::path> places() {
  std::vector<fs::path> found;
  std::vector<fs::path> wheels;
  const std::string venv = variable("VIRTUAL_ENV");
  if (!venv.empty()) wheels = wheel_directories(fs::path(venv) / "bin");
  std::istringstream path(variable("PATH"));
  for (std::string directory; std::getline(path, directory, ':');) {
    if (directory.empty()) continue;
    found.push_back(directory);
    for (const fs::path& wheel : wheel_directories(directory)) wheels.push_back(wheel);
  }
  for (const char* root : {"CUDA_HOME", "CUDA_PATH"}) {
    if (!variable(root).empty()) found.push_back(fs::path(variable(root)) / "bin");
  }
  for (const fs::path& toolkit : directories_in("/usr/local", "cuda")) found.push_back(toolkit / "bin");
  found.insert(found.end(), wheels.begin(), wheels.end());
  return found;
}

// A file that lives as long as this value: the disassemblers read no pipe.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<char>& content) {
    std::string pattern = (fs::temp_directory_path() / "smla-XXXXXX").string();
    const int descriptor = ::mkstemp(pattern.data());
    if (descriptor < 0)
      stop(ExitCode::output, "no file could be made in {}", fs::temp_directory_path().string());
    ::close(descriptor);
    path_ = pattern;
    try {
      write_answer(path_, {content.data(), content.size()});
    } catch (...) {
      ::unlink(path_.c_str());
      throw;
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

fs::path find_disassembler() {
  const std::string named = variable("SMLA_NVDISASM");
  if (!named.empty()) {
    if (!runnable(named)) {
      stop(ExitCode::no_disassembler, "SMLA_NVDISASM = {} is no program that can be run", named);
    }
    return named;
  }
  const std::vector<fs::path> searched = places();
  for (const char* program : {"nvdisasm", "cuobjdump"}) {
    for (const fs::path& directory : searched) {
      if (runnable(directory / program)) return directory / program;
    }
  }
  std::vector<std::string> names;
  for (const fs::path& directory : searched) {
    std::error_code ignored;
    if (fs::is_directory(directory, ignored)) names.push_back(directory.string());
  }
  stop(ExitCode::no_disassembler,
       "neither nvdisasm nor cuobjdump was found in {}; a CUDA toolkit has both, NVIDIA's package "
       "cuda-nvdisasm-13-0 "
       "and the wheel nvidia-cuda-nvdisasm (python3 -m pip install nvidia-cuda-nvdisasm) bring nvdisasm; "
       "SMLA_NVDISASM can name the program",
       fmt::join(names, ", "));
}

std::string disassemble(const Cubin& cubin) {
  const fs::path program = find_disassembler();
  const TemporaryFile file(cubin.image);
  const bool is_cuobjdump = program.filename().string().find("cuobjdump") != std::string::npos;
  const ProcessResult result =
      run_process({program.string(), is_cuobjdump ? "--dump-sass" : "--print-code", file.path().string()});
  if (result.exit_code != 0 || result.output.empty()) {
    stop(ExitCode::no_disassembler, "{} could not read this {} cubin (exit code {}): {}", program.string(),
         cubin.arch, result.exit_code, result.errors.empty() ? "it printed nothing" : result.errors);
  }
  return result.output;
}

}  // namespace smla::core
