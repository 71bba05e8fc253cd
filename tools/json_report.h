// The JSON that tools print: one spelling of each value, that of the structs' fields.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/cubin.h"
#include "config/config.h"
#include "generator/kernel_source.h"
#include "plan/json.h"

namespace smla::core {

using Json = nlohmann::ordered_json;

// What the generator says of each kernel, joined with what the compiler says of it (found by name): name,
// role, grid, threads, registers, spill_bytes (stores and loads of a thread), stack_bytes, shared_bytes
// (dynamic and static), code_bytes.
Json kernels_json(const KernelSource& source, const Cubin& cubin);

// The same for people: a table with one line a kernel.
std::string kernels_text(const KernelSource& source, const Cubin& cubin);

Json schedule_json(const ScheduleFacts& facts);

// Two spaces a level and a newline at the end. Text that is no UTF-8 (a path can be) is printed with
// replacements.
std::string printed(const Json& json);

}  // namespace smla::core
