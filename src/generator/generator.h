#pragma once

#include <string>

#include "config/config.h"
#include "generator/kernel_source.h"
#include "generator/templates.h"
#include "problem/problem.h"

namespace smla::core {

// The specialised CUDA text for one problem and config. The same values give the same bytes on every machine.
KernelSource generate(const Problem& problem, const Config& config);

// Bytes of a kv row's sums of d_kv: fp32, or for a deterministic problem 64-bit integers, 16 words that say
// how to read them, and as many that fill up a multiple of 256.
int sum_row_bytes(const Problem& problem);

// Dynamic shared memory of the sort_lists kernel in bytes: a bit a kv row and token of a block, a few sums.
long long sort_shared_bytes(long long keys, const Config& config);

}  // namespace smla::core
