// Facts that take long to find out, kept for the next process: a label and a value a line, in one small file
// beside the entries. Losing one costs time and nothing else, so nothing here fails.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cache/directories.h"

namespace smla::core {

// The memo of this label, from the user directory, else the system's. A file that is damaged, foreign or not
// readable has no memo, and a damaged line is as if it were not there.
std::optional<std::string> find_memo(const CacheDirectories& directories, std::string_view label);

// Replaces the label's memo in the user directory, by temporary file and rename. The file keeps the newest
// 16: several environments may share it. A label without blanks; no line breaks. Of two processes that write
// at the same time one may lose its memo.
void keep_memo(const CacheDirectories& directories, std::string_view label, std::string_view value);

// The file in a directory.
std::filesystem::path memo_file(const std::filesystem::path& directory);

}  // namespace smla::core
