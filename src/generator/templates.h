// Device code as text: the templates embedded at build time, or a directory that overrides them for kernel
// work.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "generator/kernel_source.h"

namespace smla::core {

// Text of one template ("ptx.cuh"): from SMLA_TEMPLATE_DIR when that directory holds it, else the embedded
// one. Error invalid_argument when the directory does not exist, internal_error for an unknown name.
std::string template_text(std::string_view file);

// The template as a part of a translation unit, in which its include guard means nothing.
SourcePart template_part(const std::string& file);

// SMLA_TEMPLATE_DIR when set and not empty. Part of the memory tier's key.
std::optional<std::string> template_override();

}  // namespace smla::core
