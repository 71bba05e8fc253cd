// Many kernels into the cache at once, for tests and tools that need them all.
#pragma once

#include <utility>
#include <vector>

#include "config/config.h"
#include "problem/problem.h"

namespace smla::core {

// Compiles what is not on disk yet, in one child process a core, since a compilation uses a single one. What
// fails here fails again, with its reason, where it is needed. Error internal_error when no process can be
// made.
void prepare_together(const std::vector<std::pair<Problem, ConfigRequest>>& wanted, const Arch& arch);

}  // namespace smla::core
