// The CUDA driver, opened at run time. Loading smla touches no GPU; the first use of driver() opens
// libcuda.so.1 and initialises it.
#pragma once

#include <string>
#include <string_view>

#include "driver/cuda_abi.h"

namespace smla::core {

// The driver's functions. Plain pointers: calling one costs what a direct call costs.
struct Driver : cuda::Functions {
  int version = 0;      // of CUDA that the driver supports: 13000
  std::string library;  // the name that was opened
};

// Opens the driver at first use: SMLA_LIBCUDA (a file; nothing else is tried then), else libcuda.so.1 by the
// dynamic linker and in the places where containers put it. Error no_driver lists every name tried, with the
// linker's words; a later call tries again. After a fork the child cannot use a driver that its parent
// initialised: Error cuda_error says so. A process that only loaded smla before it forked is fine.
const Driver& driver();

// For destructors: the driver when this process has opened it and can still use it, else null.
const Driver* live_driver() noexcept;

// Whether driver() works and finds at least one GPU. When not, *why holds the sentence.
bool driver_available(std::string* why = nullptr);

// Error cuda_error: "cuLaunchKernel(backward): CUDA_ERROR_INVALID_VALUE (1), invalid argument".
void check(cuda::Result result, std::string_view call, std::string_view subject = {});

}  // namespace smla::core
