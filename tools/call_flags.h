// Flags for one call on synthetic or given inputs: its lengths, its lists and the order in which they are
// walked. Shared by the tools that run one.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/order.h"
#include "reference/inputs.h"

namespace smla::core {

// "auto", "caller", "sorted" or "throttled", what --order takes.
std::string_view name(OrderRequest order);

// The values that `inputs` holds are the defaults that --help shows; `default_keys` says in words what --keys
// is without the flag.
void add_call_flags(CLI::App& app, InputOptions& inputs, std::optional<std::int64_t>& keys,
                    const std::string& default_keys, OrderRequest& order);

}  // namespace smla::core
