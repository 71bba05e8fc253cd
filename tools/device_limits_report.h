// What smla-bench --limits prints.
#pragma once

#include <string>
#include <vector>

#include "device_limits.h"
#include "json_report.h"

namespace smla::core {

// A table with one line a kernel, rates of its best launch at rest (cool) and under load (steady).
std::string limits_text(const DeviceProperties& device, const std::vector<MeasuredLimit>& limits);

Json limits_json(const std::vector<MeasuredLimit>& limits);

Json least_time_json(const LeastTime& least);

}  // namespace smla::core
