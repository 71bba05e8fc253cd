// The thread's last error, and the boundary that no exception crosses.
#pragma once

#include <new>
#include <utility>

#include "base/error.h"
#include "smla/smla.h"

namespace smla::core {

const char* last_error() noexcept;
void clear_last_error() noexcept;

// Remembers the exception that is being handled and returns its status. Call inside a catch block.
smla_status remember_exception() noexcept;

// Runs `body`; what it throws becomes a status and the thread's last error.
template <class Body>
smla_status guarded(Body&& body) noexcept {
  clear_last_error();
  try {
    std::forward<Body>(body)();
    return SMLA_SUCCESS;
  } catch (...) {
    return remember_exception();
  }
}

}  // namespace smla::core
