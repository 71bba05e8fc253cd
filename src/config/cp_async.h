// The rule of schedule cp_async, that of TileLang's sparse_mla_bwd with its adaptive thread selection.
#pragma once

#include "config/config.h"

namespace smla::core {

Choice choose_cp_async(const Problem& problem, const Arch& arch, const ConfigRequest& request);

// q and d_o of the head block, `stages` tiles of kv rows, P and dS: all 16-bit, nothing padded.
int cp_async_shared_bytes(const Problem& problem, const Config& config);

ScheduleFacts cp_async_facts();

}  // namespace smla::core
