// KernelSource -> Cubin with NVRTC, which is opened at run time. Needs no GPU and no driver. Every function
// here may be called from any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/cubin.h"
#include "config/arch.h"
#include "generator/kernel_source.h"

namespace smla::core {

struct CompilerVersion {
  int major = 0, minor = 0;
  std::string build;    // the library's build ID, 40 hexadecimal digits; empty when it has none
  std::string library;  // the path that was opened

  std::string name() const;  // "NVRTC 13.0", as in Cubin::compiler

  // "NVRTC 13.0 build 65be0db342ad51a0", as in keys. NVRTC does not tell its patch level (13.0.48 and 13.0.88
  // both say 13.0), and its build ID does. Without one it is the name, and patch levels share their entries.
  std::string identity() const;
};

// Opens NVRTC on first use. SMLA_NVRTC, when set, names the library or the directory that holds it, and
// nothing else is tried; nvrtc_library.h has the order otherwise. Error no_compiler lists every path tried
// with the reason; a later call tries again.
CompilerVersion compiler_version();

// What a later process needs to know so that it can tell the compiler's identity without opening it: equal
// searches find the same path, and the library is unchanged while its stamp is. nvrtc_search.h says what both
// hold.
struct CompilerSearch {
  std::string text;
  bool loaded =
      false;  // in this process already, so that what lies on disk does not matter and opening is free
};
CompilerSearch compiler_search();

// The compute capabilities that this NVRTC compiles for, as in Arch::number. Error: as compiler_version().
std::vector<int> compiler_arch_numbers();

// Compiler options for an arch, in the order in which they are part of the key.
std::vector<std::string> compile_options(const Arch& arch);

// The shell line that compiles a dumped text as compile() would: nvcc -cubin ... `file`.
std::string nvcc_command(const std::filesystem::path& file, const Arch& arch);

// Errors: no_compiler (not found, or the arch is newer than this NVRTC: names its path, version, the arch)
// and compile_failed. The latter leaves <source name>-<arch>.cu and its .log in `failure_directory` (created
// when missing) and names the file, the nvcc line that reproduces it and the log's first errors; an empty
// directory means that nothing is written.
Cubin compile(const KernelSource& source, const Arch& arch,
              const std::filesystem::path& failure_directory = {});

// PTX of the same translation unit, for reading. Errors: as compile().
std::string compile_to_ptx(const KernelSource& source, const Arch& arch,
                           const std::filesystem::path& failure_directory = {});

}  // namespace smla::core
