// The rule of schedule cp_async, that of TileLang's sparse_mla_bwd with its adaptive thread selection.
#pragma once

#include <string_view>

#include "config/config.h"

namespace smla::core {

Choice choose_cp_async(const Problem& problem, const Arch& arch, const ConfigRequest& request);

// q and d_o of the head block, `stages` tiles of kv rows, P and dS: all 16-bit, nothing padded.
int cp_async_shared_bytes(const Problem& problem, const Config& config);

inline constexpr std::string_view kCpAsyncNote =
    "one CTA a token and head block, mma.sync; what does not fit the shared memory gives up stages, then "
    "block_size, then block_h";

}  // namespace smla::core
