// The rule of schedule wgmma: 64 heads a CTA on Hopper, of one token or of several neighbours.
#pragma once

#include <string_view>

#include "config/config.h"

namespace smla::core {

constexpr int kWgmmaRows = 64;  // the M of wgmma: rows of q, heads of a block times tokens of a block

// Throws where a size is forced that no schedule of wgmma has; `schedule` is the name to blame.
void check_wgmma_request(const ConfigRequest& request, std::string_view schedule);

Config wgmma_config(Schedule schedule, int block_h);

Choice choose_wgmma(const Problem& problem, const Arch& arch, const ConfigRequest& request);

// q, d_o and 64 kv rows in panels of 64 columns, P and dS, row offsets and barriers.
int wgmma_shared_bytes(const Problem& problem);

inline constexpr std::string_view kWgmmaNote =
    "one CTA 64 heads, of one token or of 2, 4 or 8 neighbours that share the union of their lists, three "
    "warpgroups; long contexts are swept in row order by all CTAs together (list pre-pass)";

}  // namespace smla::core
