// The order in which the gradient warpgroup of schedule wgmma issues its work, written out as straight-line
// calls.
#pragma once

#include <string>

#include "problem/problem.h"

namespace smla::core {

// Text of `gradient_tile`. Left to #pragma unroll over nested loops with running counters the same sequence
// costs NVVM 4.3 s a compilation instead of 0.7 s, at the same registers and speed.
std::string gradient_sequence(const Problem& problem);

}  // namespace smla::core
