// NVRTC's C functions, found in a library that is opened at run time. Declared here because no CUDA header is
// needed to build smla.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace smla::core {

// nvrtcResult, as far as we tell its values apart.
inline constexpr int kNvrtcSuccess = 0;
inline constexpr int kNvrtcInvalidOption = 5;  // among others an arch that this version does not know

struct NvrtcProgram;  // nvrtcProgram is a pointer to an opaque struct

struct NvrtcLibrary {
  std::string path;  // the file that was opened
  int major = 0, minor = 0;
  std::string build;              // build_id.h; empty when it has none
  std::vector<int> arch_numbers;  // compute capabilities it compiles for: 80, 90, ...

  const char* (*error_string)(int) = nullptr;
  int (*create_program)(NvrtcProgram**, const char* text, const char* name, int headers,
                        const char* const* header_texts, const char* const* header_names) = nullptr;
  int (*destroy_program)(NvrtcProgram**) = nullptr;
  int (*compile_program)(NvrtcProgram*, int options, const char* const*) = nullptr;
  int (*log_size)(NvrtcProgram*, std::size_t*) = nullptr;  // sizes of texts count the terminating zero
  int (*log)(NvrtcProgram*, char*) = nullptr;
  int (*cubin_size)(NvrtcProgram*, std::size_t*) = nullptr;
  int (*cubin)(NvrtcProgram*, char*) = nullptr;
  int (*ptx_size)(NvrtcProgram*, std::size_t*) = nullptr;
  int (*ptx)(NvrtcProgram*, char*) = nullptr;
};

// Value of an environment variable; null when it is unset.
using Environment = std::function<const char*(const char*)>;

// What is handed to dlopen, in order. SMLA_NVRTC alone when it is set: the file, or the usual names in the
// directory. Otherwise libnvrtc.so.13 and .12 by name (the dynamic linker's path, or the copy that the
// process has loaded already), then CUDA_HOME, CUDA_PATH, /usr/local/cuda*, then NVIDIA's Python wheels:
// those of this interpreter when the process is one, of VIRTUAL_ENV, of CONDA_PREFIX, and of the system's
// Python. Directories that do not exist are left out, except those that a variable names.
std::vector<std::string> nvrtc_candidates(const Environment& environment);

// Opens the first candidate that works, once a process and value of SMLA_NVRTC. The reference stays valid.
// Error no_compiler lists all candidates with what was wrong, and leaves the next call free to try again.
const NvrtcLibrary& nvrtc_library();

}  // namespace smla::core
