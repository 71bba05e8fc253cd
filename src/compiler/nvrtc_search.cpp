#include "compiler/nvrtc_search.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>

#include "compiler/nvrtc_library.h"

namespace smla::core {
namespace {

namespace fs = std::filesystem;

// Where the dynamic linker looks for a bare name that this object asks for: the run path of the object and of
// the program, LD_LIBRARY_PATH as it was when the process began, the system's directories.
std::vector<std::string> linker_directories() {
  Dl_info object{};
  void* self = nullptr;  // a link_map, which is what glibc's handles are
  if (dladdr1(reinterpret_cast<void*>(&nvrtc_search), &object, &self, RTLD_DL_LINKMAP) == 0 ||
      self == nullptr)
    return {};
  Dl_serinfo sizes{};
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, &sizes) != 0) return {};
  const std::size_t words = sizes.dls_size / sizeof(std::max_align_t) + 1;
  const auto room = std::make_unique<std::max_align_t[]>(words);
  auto* paths = reinterpret_cast<Dl_serinfo*>(room.get());
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, paths) != 0 || dlinfo(self, RTLD_DI_SERINFO, paths) != 0) return {};
  std::vector<std::string> directories;
  const Dl_serpath* path = paths->dls_serpath;
  for (unsigned i = 0; i < paths->dls_cnt; ++i) directories.emplace_back(path[i].dls_name);
  return directories;
}

void add_file(std::string& text, const fs::path& file) {
  if (const auto stamp = file_stamp(file); !stamp.empty())
    text += fmt::format("{} is {}\n", file.string(), stamp);
}

}  // namespace

std::string file_stamp(const fs::path& file) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return "";
  std::error_code error;
  const fs::path resolved = fs::canonical(file, error);
  return fmt::format("{} of {} bytes from {}.{:09}", (error ? file : resolved).string(), facts.st_size,
                     facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

bool is_settled(const fs::path& file) {
  constexpr time_t kSeconds = 2;  // the coarsest clock of a file system in use
  struct stat facts {};
  return stat(file.c_str(), &facts) == 0 && facts.st_mtim.tv_sec + kSeconds < time(nullptr);
}

std::string nvrtc_search(const std::vector<std::string>& candidates) {
  const auto is_bare = [](const std::string& candidate) { return candidate.find('/') == std::string::npos; };
  std::string text;
  if (std::any_of(candidates.begin(), candidates.end(), is_bare)) add_file(text, "/etc/ld.so.cache");
  const auto directories = linker_directories();
  for (const auto& candidate : candidates) {
    text += candidate + "\n";
    if (!is_bare(candidate)) {
      add_file(text, candidate);
      continue;
    }
    for (const auto& directory : directories) add_file(text, fs::path(directory) / candidate);
  }
  return text;
}

bool is_nvrtc_loaded(const std::vector<std::string>& candidates) {
  return std::any_of(candidates.begin(), candidates.end(), [](const std::string& candidate) {
    void* const handle = dlopen(candidate.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) dlclose(handle);
    return handle != nullptr;
  });
}

}  // namespace smla::core
