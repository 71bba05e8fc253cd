#pragma once

#include <filesystem>
#include <string>

namespace smla::core {

// Creates a directory and what is missing above it, each with mode 0700. One that exists is left as it is.
// Returns an empty string, or what went wrong.
std::string make_directory(const std::filesystem::path& directory);

}  // namespace smla::core
