#pragma once

#include <string>

#include "cache/directories.h"

namespace smla::core {

// CompilerVersion::identity() of the NVRTC that would be opened, for keys: remembered in a cache directory
// from the process that opened it first, as long as the search for it and the library's file are unchanged
// (path, size, time). Opens NVRTC otherwise and remembers. Errors: as compiler_version().
std::string compiler_identity(const CacheDirectories& directories);

}  // namespace smla::core
