// Who waits for what, when nobody can go on.
#pragma once

#include <string>
#include <vector>

namespace smla::core::emulator {

struct Cta;

// A line for every group of lanes that stand at the same place.
std::string deadlock_text(const std::vector<Cta*>& running);

}  // namespace smla::core::emulator
