#pragma once

#include <string>

#include "config/config.h"
#include "generator/kernel_source.h"
#include "generator/templates.h"
#include "problem/problem.h"

namespace smla::core {

// The specialised CUDA text for one problem and config. The same values give the same bytes on every machine.
KernelSource generate(const Problem& problem, const Config& config);

// Dynamic shared memory of the sort_lists kernel in bytes: a bit a kv row and token of a block, a few sums.
long long sort_shared_bytes(long long keys, const Config& config);

}  // namespace smla::core
