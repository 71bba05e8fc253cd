// The rule of schedule wgmma: one CTA a token and 64 heads on Hopper.
#pragma once

#include "config/config.h"

namespace smla::core {

Choice choose_wgmma(const Problem& problem, const Arch& arch, const ConfigRequest& request);

// q, d_o and 64 kv rows in panels of 64 columns, P and dS, row offsets and barriers.
int wgmma_shared_bytes(const Problem& problem);

ScheduleFacts wgmma_facts();

}  // namespace smla::core
