#include "base/error.h"

namespace smla::core {

std::string_view status_name(Status status) {
  switch (status) {
    case Status::success:
      return "success";
    case Status::invalid_argument:
      return "invalid argument";
    case Status::not_supported:
      return "not supported";
    case Status::no_driver:
      return "no driver";
    case Status::no_compiler:
      return "no compiler";
    case Status::compile_failed:
      return "compile failed";
    case Status::not_cached:
      return "not cached";
    case Status::cuda_error:
      return "CUDA error";
    case Status::capturing:
      return "capturing";
    case Status::internal_error:
      return "internal error";
  }
  return "unknown status";
}

}  // namespace smla::core
