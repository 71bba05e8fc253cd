// Flags for one call on synthetic or given inputs: its lengths, its lists and the order in which they are
// walked. Shared by the tools that run one.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "plan/order.h"
#include "reference/inputs.h"

namespace smla::core {

// The values that `inputs` holds are the defaults that --help shows; `default_keys` says in words what --keys
// is without the flag.
void add_call_flags(CLI::App& app, InputOptions& inputs, std::optional<std::int64_t>& keys,
                    const std::string& default_keys, OrderRequest& order);

}  // namespace smla::core
