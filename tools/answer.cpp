#include "answer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "exit_codes.h"

namespace smla::core {
namespace {

namespace fs = std::filesystem;

// Returns 0 or errno.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

[[noreturn]] void not_written(const fs::path& target, int error) {
  stop(ExitCode::output, "{} could not be written: {}", target.string(), std::strerror(error));
}

void write_in_place(const fs::path& target, std::string_view text) {
  const int descriptor = ::open(target.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) not_written(target, errno);
  const int error = write_all(descriptor, text);
  if (::close(descriptor) != 0 && error == 0) not_written(target, errno);
  if (error != 0) not_written(target, error);
}

}  // namespace

void print_answer(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error != 0)
    stop(ExitCode::output, "the answer could not be written to stdout: {}", std::strerror(error));
}

void write_answer(const fs::path& target, std::string_view text) {
  if (target == "-") return print_answer(text);
  std::error_code ignored;
  // A link is followed: the file that it names is replaced, not the link, also where that file is not there
  // yet.
  fs::path file = target;
  if (fs::exists(target, ignored)) {
    file = fs::canonical(target, ignored);
  } else if (fs::is_symlink(target, ignored)) {
    file = target.parent_path() / fs::read_symlink(target, ignored);
  }
  if (fs::is_directory(file, ignored)) not_written(target, EISDIR);
  if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored)) return write_in_place(target, text);

  const fs::path temporary =
      file.parent_path() / fmt::format(".{}.{}.tmp", file.filename().string(), ::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) not_written(target, errno);
  int error = write_all(descriptor, text);
  if (error == 0 && ::fsync(descriptor) != 0) error = errno;
  if (::close(descriptor) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), file.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    not_written(target, error);
  }
}

std::string read_input(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  if (!stream || fs::is_directory(file))
    stop(ExitCode::usage, "{} could not be read: {}", file.string(), std::strerror(errno));
  return text.str();
}

}  // namespace smla::core
