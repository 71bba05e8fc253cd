// Errors are sentences with the offending value, carried with a status that a program can act on.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace smla::core {

// The same values, in the same order, as smla_status in include/smla/smla.h.
enum class Status {
  success = 0,
  invalid_argument,  // a value that can never work: negative length, misaligned pointer
  not_supported,     // a sound request that no schedule can run; the message names the nearest that works
  no_driver,         // libcuda.so.1 not found, or no usable GPU
  no_compiler,       // NVRTC not found, or too old for the arch
  compile_failed,    // NVRTC refused the generated text: a defect of smla
  not_cached,        // SMLA_JIT=off and the kernel is in no cache
  cuda_error,        // the driver refused a call
  capturing,         // the call would have to compile or load while its stream is being captured
  internal_error,    // everything else, among it running out of memory
};

std::string_view status_name(Status status);

class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

// Throws Error with "smla: " before the formatted sentence.
template <class... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> sentence, Args&&... args) {
  throw Error(status, "smla: " + fmt::format(sentence, std::forward<Args>(args)...));
}

}  // namespace smla::core
