// What ptxas says on its way to machine code, as values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/cubin.h"

namespace smla::core {

// Registers, spills, stack and static shared memory of every kernel that the log reports, in its order. Needs
// ptxas -v; code_bytes stays 0.
std::vector<KernelResources> reported_resources(std::string_view log);

// Lines that a careful reader would stop at: warnings of the front end and of ptxas, and the notes that ptxas
// marks as information although they cost speed: (C7508) setmaxnreg ignored, (C7509) to (C7519) wgmma
// serialised or fenced. Without the line's "ptxas info    :", in the log's order, each once.
std::vector<std::string> reported_warnings(std::string_view log);

// The first `limit` error lines, or the log's last line when none is marked as an error.
std::vector<std::string> reported_errors(std::string_view log, std::size_t limit);

}  // namespace smla::core
