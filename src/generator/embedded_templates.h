// The templates as they were at build time; defined in a file that CMake writes.
#pragma once

#include <cstddef>
#include <string_view>

namespace smla::core {

struct EmbeddedTemplate {
  std::string_view file;
  std::string_view text;
};

extern const EmbeddedTemplate kEmbeddedTemplates[];
extern const std::size_t kEmbeddedTemplateCount;

}  // namespace smla::core
