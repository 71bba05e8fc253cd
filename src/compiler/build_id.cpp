#include "compiler/build_id.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <string_view>

namespace smla::core {
namespace {

struct Wanted {
  const link_map* library;
  std::string id;
};

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 3) / 4 * 4;  // notes and their names are aligned to 4 bytes
}

std::string id_in(std::string_view notes) {
  constexpr std::string_view kOwner{"GNU", 4};
  constexpr char kDigits[] = "0123456789abcdef";
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof header) {
    std::memcpy(&header, notes.data(), sizeof header);
    notes.remove_prefix(sizeof header);
    const std::size_t name = padded(header.n_namesz), all = name + padded(header.n_descsz);
    if (all > notes.size()) break;
    if (header.n_type == NT_GNU_BUILD_ID && notes.substr(0, header.n_namesz) == kOwner) {
      std::string id;
      for (const char byte : notes.substr(name, header.n_descsz)) {
        id += kDigits[static_cast<unsigned char>(byte) >> 4];
        id += kDigits[static_cast<unsigned char>(byte) & 15];
      }
      return id;
    }
    notes.remove_prefix(all);
  }
  return "";
}

int look(dl_phdr_info* object, std::size_t, void* data) {
  auto& wanted = *static_cast<Wanted*>(data);
  if (object->dlpi_addr != wanted.library->l_addr ||
      std::strcmp(object->dlpi_name, wanted.library->l_name) != 0)
    return 0;
  for (int i = 0; i < object->dlpi_phnum && wanted.id.empty(); ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    // The segment's address in this process is the object's plus the one in the file.
    const auto* bytes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    wanted.id = id_in({bytes, segment.p_memsz});
  }
  return 1;
}

}  // namespace

std::string build_id(void* handle) {
  link_map* library = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &library) != 0 || library == nullptr) return "";
  Wanted wanted{library, ""};
  dl_iterate_phdr(look, &wanted);
  return wanted.id;
}

}  // namespace smla::core
