// The GPU architectures that kernels are compiled for, and what a schedule has to know of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smla::core {

struct Arch {
  int number = 90;        // compute capability without its point: 80, 86, 89, 90, 100, 103, 120
  bool features = false;  // the "a" suffix: instructions of this architecture alone (wgmma, setmaxnreg)

  bool operator==(const Arch&) const = default;
};

// "sm_90a". The inverse of parse_arch.
std::string name(const Arch& arch);

// Accepts sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_103, sm_103a, sm_120, sm_120a; "90a"
// as well. Anything else is an Error that lists them.
Arch parse_arch(std::string_view text);

// What a GPU of this compute capability runs best: 9.0 -> sm_90a, 8.6 -> sm_86. Unknown ones are an Error.
Arch arch_of_device(int major, int minor);

// Shared memory that one CTA may ask for, in bytes (CUDA C++ Programming Guide, table of technical
// specifications).
int shared_memory_limit(const Arch& arch);

bool has_wgmma(const Arch& arch);              // sm_90a alone
bool has_vector_reductions(const Arch& arch);  // red.global.add.v4.f32: sm_90 and later

// Every arch that the tests compile for.
std::vector<Arch> known_archs();

}  // namespace smla::core
