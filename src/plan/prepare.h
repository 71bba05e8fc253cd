// From a Problem, a Config and an arch to machine code: looked up in memory, then on disk, then compiled.
// Needs no GPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache.h"
#include "compiler/cubin.h"
#include "config/config.h"
#include "generator/kernel_source.h"
#include "problem/problem.h"

namespace smla::core {

struct Prepared {
  Problem problem;
  Config config;
  Arch arch;
  std::string name;                  // of the KernelSource
  std::vector<KernelFacts> kernels;  // in launch order
  Cubin cubin;
  CacheKey key;
  CacheSource source = CacheSource::built;  // where this process had it from
};

// What an entry of the disk cache is found by: schema, SHA-256 of the source text, arch, compiler and
// options. `compiler` is CompilerVersion::identity().
CacheKey cache_key(const KernelSource& source, const Arch& arch, std::string_view compiler);

// The memory tier is looked up by values (problem, config, arch, SMLA_TEMPLATE_DIR); concurrent callers share
// one preparation. Its miss generates the text, computes the key, and looks on disk; a miss there compiles.
//
// With SMLA_JIT=off, or where NVRTC cannot be opened (a serving image), the version of the compiler is not
// known or does not matter: an entry is then found by everything but the compiler, and among several the
// newest compiler's is taken. Errors: not_cached with the smla-prewarm line that would fix it; no_compiler
// and compile_failed as compile().
std::shared_ptr<const Prepared> prepare(const Problem& problem, const Config& config, const Arch& arch);

// What prepare() would return from the memory tier, else null: neither touches a file nor waits.
std::shared_ptr<const Prepared> find_prepared(const Problem& problem, const Config& config, const Arch& arch);

// SMLA_JIT is unset, empty, "on" or "1": true; "off" or "0": false. Anything else is Error invalid_argument.
bool jit_allowed();

std::string_view name(CacheSource source);  // "built", "user cache", "system cache"

}  // namespace smla::core
