// Copies of fake_nvrtc.c's library that differ as two releases of NVRTC do, and an image for it to "compile".
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace smla_test {

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Over what is there: the same file, other bytes.
inline void write_in_place(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

// A library that was installed some time ago, each call's at another time.
inline void install(const std::filesystem::path& file, const std::string& bytes) {
  static int installed = 0;
  write_in_place(file, bytes);
  std::filesystem::last_write_time(
      file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1000 - ++installed));
}

// The bytes of the fake library with another build ID, eight times the digit: of the same size and version.
inline std::string fake_nvrtc_of_build(char digit) {
  const std::string linked = "\x01\x23\x45\x67\x89\xab\xcd\xef";  // as tests/CMakeLists.txt links it
  std::string bytes = bytes_of(SMLA_FAKE_NVRTC);
  const auto at = bytes.find(std::string("GNU\0", 4) + linked);
  if (at == std::string::npos)
    throw std::runtime_error("the fake NVRTC has not the build ID of its link line");
  bytes.replace(at + 4, linked.size(), linked.size(), static_cast<char>((digit - '0') * 0x11));
  return bytes;
}

// An ELF file of 64 bits with a section for each name; each holds `section_bytes` bytes.
inline std::string elf_with_sections(const std::vector<std::string>& sections, std::size_t section_bytes) {
  std::string names(1, '\0');
  std::vector<std::size_t> name_at;
  for (const auto& name : sections) {
    name_at.push_back(names.size());
    names += name + '\0';
  }
  const std::size_t names_at = 64 + section_bytes, table_at = names_at + names.size();
  std::string file(table_at, '\0');
  file.replace(0, 6, "\177ELF\2\1");
  file.replace(names_at, names.size(), names);
  const auto put = [](std::string& to, std::size_t at, auto value) {
    std::memcpy(to.data() + at, &value, sizeof value);
  };
  put(file, 40, static_cast<std::uint64_t>(table_at));
  put(file, 58, static_cast<std::uint16_t>(64));                   // bytes of an entry
  put(file, 60, static_cast<std::uint16_t>(sections.size() + 1));  // entries
  put(file, 62, static_cast<std::uint16_t>(sections.size()));      // the last one is the names'
  const auto add_entry = [&](std::size_t name, std::size_t offset, std::size_t bytes) {
    std::string entry(64, '\0');
    put(entry, 0, static_cast<std::uint32_t>(name));
    put(entry, 4, std::uint32_t{1});  // SHT_PROGBITS
    put(entry, 24, static_cast<std::uint64_t>(offset));
    put(entry, 32, static_cast<std::uint64_t>(bytes));
    file += entry;
  };
  for (const auto at : name_at) add_entry(at, 64, section_bytes);
  add_entry(0, names_at, names.size());
  return file;
}

// Whether this process has a file of such a name mapped.
inline bool is_mapped(const std::string& part_of_path) {
  return bytes_of("/proc/self/maps").find(part_of_path) != std::string::npos;
}

}  // namespace smla_test
