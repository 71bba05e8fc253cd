// Where a tool's answer goes: stdout or a file, written wholly or reported as not written.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace smla::core {

// Writes to stdout and flushes. Throws ToolError (output) when stdout is closed or full.
void print_answer(std::string_view text);

// Writes a file beside its target and renames it, so that nobody sees half of it; a target that is no regular
// file
// (/dev/null, a FIFO) is written in place. "-" is stdout. Throws ToolError (output) and leaves nothing
// behind.
void write_answer(const std::filesystem::path& target, std::string_view text);

// Throws ToolError (usage) when `file` cannot be read.
std::string read_input(const std::filesystem::path& file);

}  // namespace smla::core
