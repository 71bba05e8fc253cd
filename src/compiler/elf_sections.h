// The section table of an ELF file of 64 bits, which is what a cubin is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smla::core {

struct ElfSection {
  std::string name;  // ".text.<kernel>" holds a kernel's instructions
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  bool operator==(const ElfSection&) const = default;
};

// Error (internal_error) says what is wrong with bytes that are no little-endian ELF file of 64 bits or that
// point outside themselves.
std::vector<ElfSection> elf_sections(std::string_view image);

}  // namespace smla::core
