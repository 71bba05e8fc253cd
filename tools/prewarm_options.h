// The command line of smla-prewarm.
#pragma once

#include <string>
#include <vector>

#include "plan/manifest.h"
#include "problem_flags.h"

namespace smla::core {

struct PrewarmOptions {
  ProblemFlags flags;
  std::string manifest;            // a file; empty: none
  std::vector<std::string> archs;  // empty: the manifest's own, sm_90a for flags
  std::string cache_dir;           // empty: the user's cache
  std::string worker;              // the one kernel that a worker process compiles; empty: this is no worker
  int jobs = 0;                    // worker processes; 0: as many as cores
  bool json = false;
};

// `options` outlives the parsing.
void add_prewarm_flags(CLI::App& app, PrewarmOptions& options);

// The kernels that the command line asks for, each once. Errors (invalid_argument, not_supported): those of
// the manifest, and flags for which there is no kernel.
Manifest wanted_kernels(const PrewarmOptions& options);

}  // namespace smla::core
