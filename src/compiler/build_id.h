#pragma once

#include <string>

namespace smla::core {

// The build ID that the linker gave a library of this process (NT_GNU_BUILD_ID), in hexadecimal digits: it
// tells two builds of one version apart. `handle` is dlopen's. Empty when the library has none.
std::string build_id(void* handle);

}  // namespace smla::core
