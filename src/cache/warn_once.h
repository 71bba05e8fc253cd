#pragma once

#include <string>

namespace smla::core {

// A warning that a process gives once, however often its reason comes back. `sentence` without the leading
// "smla: ".
void warn_once(const std::string& sentence);

}  // namespace smla::core
