// Problem, Config and kernels as JSON objects; for nlohmann::json by its to_json and from_json convention.
// The fields of the first two are those of the structs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/cubin.h"
#include "config/config.h"
#include "generator/kernel_source.h"
#include "problem/problem.h"

namespace smla::core {

void to_json(nlohmann::ordered_json& json, const Problem& problem);
void to_json(nlohmann::ordered_json& json, const Config& config);
void to_json(nlohmann::ordered_json& json, const ConfigRequest& request);  // the fields that it forces

// Missing fields keep their defaults. Error invalid_argument for an unknown field, a wrong type or a wrong
// word.
void from_json(const nlohmann::ordered_json& json, Problem& problem);
void from_json(const nlohmann::ordered_json& json, ConfigRequest& request);

// A value for a sentence: its first 80 bytes, or "an array" or "an object", however large or deep it is.
std::string shown(const nlohmann::ordered_json& json);

// What the generator says of each kernel, joined with what the compiler says of it (found by name): name,
// role, grid, threads, shared_bytes (dynamic and static), registers, spill_bytes (stores and loads of a
// thread), stack_bytes, code_bytes. The last four are left out where the cubin has no such kernel.
nlohmann::ordered_json kernels_json(const std::vector<KernelFacts>& kernels, const Cubin& cubin);

}  // namespace smla::core
