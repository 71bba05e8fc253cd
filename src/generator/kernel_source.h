// One CUDA translation unit as an ordered list of named parts, with the facts a launch needs.
#pragma once

#include <string>
#include <vector>

namespace smla::core {

enum class KernelRole {
  preprocess,    // delta, log2 denominator, list lengths; zeroes the d_kv sums and counters
  group_scales,  // partial sums: the power of two by which each group of tokens scales P
  row_scales,    // deterministic problems: how many bits each row of d_kv's sums has in front of the point
  sort_lists,    // optional: valid entries of every list in row order, for the sweep
  backward,      // d_q, and d_kv into sums
  postprocess,   // d_kv from its sums, d_sink
};

constexpr std::size_t kKernelRoles = 6;

struct SourcePart {
  std::string name;  // "banner", "constants", "ptx.cuh", ..., "entries"
  std::string text;
};

struct KernelFacts {
  KernelRole role;
  std::string name;  // the extern "C" symbol
  std::string grid;  // the rule in words: "B * S * G * head blocks"
  int threads = 0;
  int shared_bytes = 0;  // dynamic shared memory; sort_lists: 0, its size depends on S_kv (sort_shared_bytes)
};

struct KernelSource {
  std::string name;  // canonical names of problem and config
  std::vector<SourcePart> parts;
  std::vector<KernelFacts> kernels;  // in launch order

  // The translation unit: parts in order. Builds alone with NVRTC and with nvcc -cubin.
  std::string text() const;
};

const KernelFacts& kernel(const KernelSource& source, KernelRole role);

}  // namespace smla::core
