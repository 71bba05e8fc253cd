// Problem and Config as JSON objects whose fields are those of the structs; for nlohmann::json by its to_json
// and from_json convention.
#pragma once

#include <nlohmann/json.hpp>

#include "config/config.h"
#include "problem/problem.h"

namespace smla::core {

void to_json(nlohmann::ordered_json& json, const Problem& problem);
void to_json(nlohmann::ordered_json& json, const Config& config);
void to_json(nlohmann::ordered_json& json, const ConfigRequest& request);  // the fields that it forces

// Missing fields keep their defaults. Error invalid_argument for an unknown field, a wrong type or a wrong
// word.
void from_json(const nlohmann::ordered_json& json, Problem& problem);
void from_json(const nlohmann::ordered_json& json, ConfigRequest& request);

}  // namespace smla::core
