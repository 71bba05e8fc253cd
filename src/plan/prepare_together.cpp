#include "plan/prepare_together.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <thread>

#include "base/error.h"
#include "plan/prepare.h"

namespace smla::core {

void prepare_together(const std::vector<std::pair<Problem, ConfigRequest>>& wanted, const Arch& arch) {
  const std::size_t processes =
      std::min<std::size_t>(wanted.size(), std::max(1u, std::thread::hardware_concurrency()));
  std::vector<pid_t> children;
  int refused = 0;
  for (std::size_t i = 0; i < processes && refused == 0; ++i) {
    const pid_t child = ::fork();
    if (child > 0) children.push_back(child);
    if (child < 0) refused = errno;
    if (child != 0) continue;
    for (std::size_t w = i; w < wanted.size(); w += processes) {
      try {
        const auto& [problem, request] = wanted[w];
        prepare(problem, choose_config(problem, arch, request).config, arch);
      } catch (const std::exception&) {
        continue;
      }
    }
    ::_exit(0);
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  if (refused != 0) fail(Status::internal_error, "no process to compile in: {}", std::strerror(refused));
}

}  // namespace smla::core
