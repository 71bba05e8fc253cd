// What the tools' exit codes mean: one table for all of them, printed at the end of every --help.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace smla::core {

enum class ExitCode {
  ok = 0,
  internal = 1,         // a defect of smla, or out of memory
  usage = 2,            // an option, a value or a file that cannot work
  not_supported = 3,    // a sound request that no schedule can run
  no_compiler = 4,      // NVRTC not found, or too old for the arch
  compile_failed = 5,   // NVRTC refused the generated text
  cache = 6,            // an entry is missing or damaged, or a kernel could not be stored
  no_gpu = 7,           // no driver or no usable GPU
  no_disassembler = 8,  // nvdisasm and cuobjdump not found
  check_failed = 9,     // the result differs from the reference
  output = 10,          // the answer could not be written: closed pipe, full disk, no permission
  cuda_error = 11,      // the driver refused a call
};

ExitCode exit_code(Status status);

// "Exit codes:" and one line for each, 0 first, as a CLI11 footer.
std::string exit_code_table(std::initializer_list<ExitCode> codes);

// An end of the program that no Status names.
class ToolError : public std::runtime_error {
 public:
  ToolError(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Throws ToolError with "smla: " before the formatted sentence.
template <class... Args>
[[noreturn]] void stop(ExitCode code, fmt::format_string<Args...> sentence, Args&&... args) {
  throw ToolError(code, "smla: " + fmt::format(sentence, std::forward<Args>(args)...));
}

}  // namespace smla::core
