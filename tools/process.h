// Running another program.
#pragma once

#include <string>
#include <vector>

namespace smla::core {

struct ProcessResult {
  int exit_code = 0;   // 128 + signal for one that a signal ended
  std::string output;  // its stdout
  std::string errors;  // its stderr
};

// Runs argv[0] (a path) to its end with stdin closed and collects what it prints. Throws Error
// (internal_error) when it cannot be started.
ProcessResult run_process(const std::vector<std::string>& argv);

}  // namespace smla::core
