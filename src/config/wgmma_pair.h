// The rule of schedule wgmma_pair: two CTAs of a cluster for 128 heads of a token.
#pragma once

#include <string_view>

#include "config/config.h"

namespace smla::core {

Choice choose_wgmma_pair(const Problem& problem, const Arch& arch, const ConfigRequest& request);

inline constexpr std::string_view kWgmmaPairNote =
    "two CTAs of a cluster share a token, 64 heads each; each reduces half of d_kv's columns for both and "
    "gets the other's part "
    "in bf16 through distributed shared memory";

}  // namespace smla::core
