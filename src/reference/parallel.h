#pragma once

#include <cstdint>
#include <functional>

namespace smla::core {

// Calls body(0) .. body(count - 1), each once, on all cores; returns when all have. The first exception of a
// body is thrown again here, after the others have stopped.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body);

}  // namespace smla::core
