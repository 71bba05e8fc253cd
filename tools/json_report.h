// What tools print beside the objects of plan/json.h.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/cubin.h"
#include "config/facts.h"
#include "generator/kernel_source.h"
#include "plan/json.h"

namespace smla::core {

using Json = nlohmann::ordered_json;

// What plan/json.h's kernels_json says, for people: a table with one line a kernel.
std::string kernels_text(const KernelSource& source, const Cubin& cubin);

Json schedule_json(const ScheduleFacts& schedule);

// Two spaces a level and a newline at the end. Text that is no UTF-8 (a path can be) is printed with
// replacements.
std::string printed(const Json& json);

}  // namespace smla::core
