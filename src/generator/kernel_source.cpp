#include "generator/kernel_source.h"

#include "base/error.h"

namespace smla::core {

std::string KernelSource::text() const {
  std::string text;
  for (const SourcePart& part : parts) {
    text += part.text;
    if (!text.empty() && text.back() != '\n') text += '\n';
  }
  return text;
}

const KernelFacts& kernel(const KernelSource& source, KernelRole role) {
  for (const KernelFacts& facts : source.kernels) {
    if (facts.role == role) return facts;
  }
  fail(Status::internal_error, "{} has no kernel of the asked role", source.name);
}

}  // namespace smla::core
