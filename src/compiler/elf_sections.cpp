#include "compiler/elf_sections.h"

#include <cstring>

#include "base/error.h"

namespace smla::core {
namespace {

// Offsets of the fields that are read, from the ELF-64 object file format.
constexpr std::uint64_t kHeaderBytes = 64;
constexpr std::uint64_t kSectionTableAt = 40;  // e_shoff, 8 bytes
constexpr std::uint64_t kSectionBytesAt = 58;  // e_shentsize, 2 bytes
constexpr std::uint64_t kSectionCountAt = 60;  // e_shnum, 2 bytes
constexpr std::uint64_t kNameSectionAt = 62;   // e_shstrndx, 2 bytes
constexpr std::uint64_t kSectionEntryBytes = 64;
constexpr std::uint64_t kTypeAt = 4, kOffsetAt = 24,
                        kSizeAt = 32;  // in a section's entry; its name's offset is at 0
constexpr std::uint32_t kNoBits = 8;   // SHT_NOBITS: a size without bytes in the file

template <class Integer>
Integer read(std::string_view image, std::uint64_t at) {
  if (at > image.size() || image.size() - at < sizeof(Integer)) {
    fail(Status::internal_error, "the machine code is cut short: {} bytes, and byte {} is needed",
         image.size(), at);
  }
  Integer value;
  std::memcpy(&value, image.data() + at, sizeof value);  // the hosts of CUDA are little-endian, like the file
  return value;
}

std::string_view bytes_of(std::string_view image, std::uint64_t offset, std::uint64_t size) {
  if (offset > image.size() || size > image.size() - offset) {
    fail(Status::internal_error, "a section of the machine code lies outside its {} bytes: {} bytes from {}",
         image.size(), size, offset);
  }
  return image.substr(offset, size);
}

}  // namespace

std::vector<ElfSection> elf_sections(std::string_view image) {
  constexpr std::string_view kMagic = "\177ELF\2\1";  // 64 bits, little-endian
  if (image.size() < kHeaderBytes || image.substr(0, kMagic.size()) != kMagic) {
    fail(Status::internal_error, "the machine code of {} bytes is no ELF file of 64 bits", image.size());
  }
  const auto table = read<std::uint64_t>(image, kSectionTableAt);
  const auto entry_bytes = read<std::uint16_t>(image, kSectionBytesAt);
  const auto count = read<std::uint16_t>(image, kSectionCountAt);
  const auto name_section = read<std::uint16_t>(image, kNameSectionAt);
  if (count == 0) return {};
  if (entry_bytes != kSectionEntryBytes || name_section >= count) {
    fail(Status::internal_error,
         "the machine code's section table is damaged: entries of {} bytes, names in {} of {}", entry_bytes,
         name_section, count);
  }
  bytes_of(image, table, count * kSectionEntryBytes);

  const auto entry = [&](std::uint64_t index) { return table + index * kSectionEntryBytes; };
  const auto names = bytes_of(image, read<std::uint64_t>(image, entry(name_section) + kOffsetAt),
                              read<std::uint64_t>(image, entry(name_section) + kSizeAt));
  std::vector<ElfSection> sections;
  for (std::uint64_t i = 0; i < count; ++i) {
    ElfSection section;
    const auto name_at = read<std::uint32_t>(image, entry(i));
    if (name_at > names.size() || names.find('\0', name_at) == std::string_view::npos) {
      fail(Status::internal_error, "the name of section {} of the machine code lies outside its table", i);
    }
    section.name = names.data() + name_at;
    section.offset = read<std::uint64_t>(image, entry(i) + kOffsetAt);
    section.bytes = read<std::uint64_t>(image, entry(i) + kSizeAt);
    const auto type = read<std::uint32_t>(image, entry(i) + kTypeAt);
    if (type != kNoBits && type != 0) bytes_of(image, section.offset, section.bytes);
    sections.push_back(std::move(section));
  }
  return sections;
}

}  // namespace smla::core
