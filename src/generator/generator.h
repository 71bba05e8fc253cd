#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "generator/kernel_source.h"
#include "problem/problem.h"

namespace smla::core {

// The specialised CUDA text for one problem and config. The same values give the same bytes on every machine.
// SMLA_TEMPLATE_DIR names a directory whose files override the templates embedded at build time.
KernelSource generate(const Problem& problem, const Config& config);

// Text of one template ("ptx.cuh"): from SMLA_TEMPLATE_DIR when that holds it, else the embedded one.
std::string template_text(std::string_view file);

// SMLA_TEMPLATE_DIR when set and not empty. Part of the memory tier's key.
std::optional<std::string> template_override();

}  // namespace smla::core
