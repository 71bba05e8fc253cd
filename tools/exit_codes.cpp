#include "exit_codes.h"

namespace smla::core {
namespace {

const char* meaning(ExitCode code) {
  switch (code) {
    case ExitCode::ok:
      return "done";
    case ExitCode::internal:
      return "a defect of smla, or out of memory";
    case ExitCode::usage:
      return "an option, a value or a file that cannot work";
    case ExitCode::not_supported:
      return "sound, but no schedule can run it";
    case ExitCode::no_compiler:
      return "NVRTC not found, or too old for the arch; for runs on the CPU: no C++ compiler";
    case ExitCode::compile_failed:
      return "the compiler refused the generated text";
    case ExitCode::cache:
      return "an entry is missing or damaged, or could not be stored";
    case ExitCode::no_gpu:
      return "no driver or no usable GPU";
    case ExitCode::no_disassembler:
      return "nvdisasm and cuobjdump not found";
    case ExitCode::check_failed:
      return "the result differs from the reference";
    case ExitCode::output:
      return "the answer could not be written";
    case ExitCode::cuda_error:
      return "the driver refused a call";
  }
  return "";
}

}  // namespace

ExitCode exit_code(Status status) {
  switch (status) {
    case Status::success:
      return ExitCode::ok;
    case Status::invalid_argument:
      return ExitCode::usage;
    case Status::not_supported:
      return ExitCode::not_supported;
    case Status::no_driver:
      return ExitCode::no_gpu;
    case Status::no_compiler:
      return ExitCode::no_compiler;
    case Status::compile_failed:
      return ExitCode::compile_failed;
    case Status::not_cached:
      return ExitCode::cache;
    case Status::cuda_error:
      return ExitCode::cuda_error;
    case Status::capturing:
      return ExitCode::internal;  // no tool captures a stream
    case Status::internal_error:
      return ExitCode::internal;
  }
  return ExitCode::internal;
}

std::string exit_code_table(std::initializer_list<ExitCode> codes) {
  std::string text = fmt::format("Exit codes:\n  {:>2}  {}\n", 0, meaning(ExitCode::ok));
  for (const ExitCode code : codes)
    text += fmt::format("  {:>2}  {}\n", static_cast<int>(code), meaning(code));
  return text;
}

}  // namespace smla::core
