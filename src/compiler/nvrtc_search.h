// Which NVRTC would be opened, told from the outside of the files: opening one costs 15 to 40 ms, and a
// process that finds its kernels on disk has no other need of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace smla::core {

// A file as it lies there: its path without symbolic links, its size and the time of its last change. Empty
// when there is none.
std::string file_stamp(const std::filesystem::path& file);

// Whether the file's last change is old enough to tell it from the next: two writes within one tick of the file
// system's clock have one time. A clock that runs ahead of ours counts as a change just now.
bool is_settled(const std::filesystem::path& file);

// What decides which of these candidates (nvrtc_library.h) dlopen takes, a fact a line: the candidates, the
// files among them and, for a bare name, those in the directories of the dynamic linker and the stamp of
// ld.so's own cache. Two searches of equal text take the same path. Opens nothing.
std::string nvrtc_search(const std::vector<std::string>& candidates);

// Whether this process has one of the candidates loaded, by us or by another library. Then the copy in memory
// counts, whatever lies on disk, and opening it costs nothing.
bool is_nvrtc_loaded(const std::vector<std::string>& candidates);

}  // namespace smla::core
