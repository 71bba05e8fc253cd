// Schedule wgmma_pair: the two functions of a tile that are written out, send_tile of the score warpgroup and own_tile of the
// gradient warpgroup.
#pragma once

#include <string>

#include "problem/problem.h"

namespace smla::core {

std::string pair_sequence(const Problem& problem);

}  // namespace smla::core
