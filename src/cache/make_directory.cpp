#include "cache/make_directory.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace smla::core {

std::string make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  if (std::filesystem::is_directory(directory, error)) return "";
  if (directory.has_relative_path() && directory.has_parent_path() && directory.parent_path() != directory) {
    if (const auto fault = make_directory(directory.parent_path()); !fault.empty()) return fault;
  }
  if (mkdir(directory.c_str(), 0700) == 0) return "";
  const int reason = errno;
  if (reason == EEXIST && std::filesystem::is_directory(directory, error))
    return "";  // another process was faster
  return reason == EEXIST ? "there is a file of that name" : std::strerror(reason);
}

}  // namespace smla::core
