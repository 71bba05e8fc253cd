#include "generator/templates.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "generator/embedded_templates.h"

namespace smla::core {

std::optional<std::string> template_override() {
  const char* directory = std::getenv("SMLA_TEMPLATE_DIR");
  if (!directory || !*directory) return std::nullopt;
  return directory;
}

std::string template_text(std::string_view file) {
  if (const auto directory = template_override()) {
    if (!std::filesystem::is_directory(*directory)) {
      fail(Status::invalid_argument, "SMLA_TEMPLATE_DIR = \"{}\" is not a directory", *directory);
    }
    std::ifstream stream(std::filesystem::path(*directory) / file, std::ios::binary);
    if (stream) return {std::istreambuf_iterator<char>(stream), {}};
  }
  for (std::size_t i = 0; i < kEmbeddedTemplateCount; ++i) {
    if (kEmbeddedTemplates[i].file == file) return std::string(kEmbeddedTemplates[i].text);
  }
  fail(Status::internal_error, "there is no template named {}", file);
}

SourcePart template_part(const std::string& file) {
  std::string text = template_text(file);
  const std::string guard = "#pragma once\n";
  if (const auto at = text.find(guard); at != std::string::npos) text.erase(at, guard.size());
  return {file, fmt::format("// ======== {} ========\n{}\n", file, text)};
}

}  // namespace smla::core
